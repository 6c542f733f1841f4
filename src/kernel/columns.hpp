// What passes between the compiled modules: columns, and one call over the columns gathered from objects.
// Plain data, behind a capsule named after its type; knows no Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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

// A selected row and its scores.
struct KeptRow {
    std::int64_t row;
    double relevance;
    double recency;
    double importance;
    double composite;
};

// Float64 columns that a gather fills, a way to count a row's tokens when it is reached, and what was kept.
struct CountedCall {
    Columns columns;
    // Tokens of a row, 1 or more; -1 after an error that the caller of the kernel knows how to report.
    std::int64_t (*count_tokens)(void* context, std::int64_t row) = nullptr;
    void* context = nullptr;
    std::vector<KeptRow> kept;

    void allocate(std::size_t rows) {
        // Not initialised, since every row is written before it is read.
        values_.reset(new double[3 * rows + 1]);
        columns.relevance = values_.get();
        columns.timestamp = values_.get() + rows;
        columns.importance = values_.get() + 2 * rows;
        columns.rows = static_cast<std::int64_t>(rows);
    }
    double* relevance() { return values_.get(); }
    double* timestamp() { return values_.get() + columns.rows; }
    double* importance() { return values_.get() + 2 * columns.rows; }

private:
    std::unique_ptr<double[]> values_;
};

}  // namespace memsel
