// The columns that the kernel reads, as plain pointers, and storage for columns gathered from objects.
// Shared by the compiled modules; knows no Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace memsel {

// One value a row; `rows` long. Columns that may be float32 say so, everything else is of the type it shows.
struct Columns {
    const void* relevance = nullptr;
    const double* timestamp = nullptr;
    const void* importance = nullptr;
    const std::int64_t* tokens = nullptr;
    std::int64_t rows = 0;
    bool relevance_is_float32 = false;
    bool importance_is_float32 = false;
};

// Three float64 columns that a gather fills; left uninitialised, since every row is written before it is read.
class GatheredColumns {
public:
    void allocate(std::size_t rows) {
        values_.reset(new double[3 * rows + 1]);
        rows_ = rows;
    }
    double* relevance() { return values_.get(); }
    double* timestamp() { return values_.get() + rows_; }
    double* importance() { return values_.get() + 2 * rows_; }
    Columns columns() {
        Columns view;
        view.relevance = relevance();
        view.timestamp = timestamp();
        view.importance = importance();
        view.rows = static_cast<std::int64_t>(rows_);
        return view;
    }

private:
    std::unique_ptr<double[]> values_;
    std::size_t rows_ = 0;
};

}  // namespace memsel
