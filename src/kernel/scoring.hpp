// The score of one row. Every score that decides or is reported is made here, by whichever module; modules that include
// this are compiled without contraction of a*b + c. Knows no Python.
#pragma once

#include <cmath>

namespace memsel {

struct Scoring {
    double relevance_weight;
    double recency_weight;
    double importance_weight;
    double minus_lambda;  // -(ln 2 / half_life_hours), per hour of age
    double now;
    bool clamp_future;
};

// Recency of a timestamp; false where a finite exponent overflows.
inline bool recency_of(const Scoring& scoring, double timestamp, double& recency) {
    double hours = (scoring.now - timestamp) / 3600.0;
    if (scoring.clamp_future && hours < 0.0) hours = 0.0;
    const double exponent = scoring.minus_lambda * hours;
    recency = std::exp(exponent);
    return !(std::isinf(recency) && std::isfinite(exponent));
}

// The weighted sum, in the reference's order.
inline double composite_of(const Scoring& scoring, double relevance, double recency, double importance) {
    return (scoring.relevance_weight * relevance + scoring.recency_weight * recency) +
           scoring.importance_weight * importance;
}

// Recency and composite of a row; false where a finite exponent overflows.
inline bool score_row(const Scoring& scoring, double relevance, double timestamp, double importance, double& recency,
                      double& composite) {
    if (!recency_of(scoring, timestamp, recency)) return false;
    composite = composite_of(scoring, relevance, recency, importance);
    return true;
}

}  // namespace memsel
