// Numbers that float64 cannot hold, where kernels multiply along long strings or deep trees.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core.hpp"

namespace mercer {

// mantissa · 2^(512 block), 2^-256 <= mantissa < 2^256 or 0: numbers >= 0 that never leave the
// range.
struct Wide {
  double mantissa = 0;
  Index block = 0;

  Wide() = default;
  Wide(double x) : mantissa(x) { settle(); }
  void settle() {
    if (mantissa == 0) {
      block = 0;
      return;
    }
    while (mantissa >= 0x1p256) mantissa *= 0x1p-512, ++block;
    while (mantissa < 0x1p-256) mantissa *= 0x1p512, --block;
  }
  Wide& operator+=(const Wide& other) {
    if (other.mantissa == 0) return *this;
    if (mantissa == 0) return *this = other;
    Index apart = block - other.block;
    if (apart > 1) return *this;  // less than 2^-512 of this
    if (apart < -1) return *this = other;
    if (apart == 1) {
      mantissa += other.mantissa * 0x1p-512;
    } else {
      mantissa = (apart ? mantissa * 0x1p-512 : mantissa) + other.mantissa;
      block = other.block;
    }
    settle();
    return *this;
  }
  Wide operator*(const Wide& other) const {
    Wide product;
    product.mantissa = mantissa * other.mantissa;  // at least 2^-512, less than 2^512
    product.block = block + other.block;
    if (product.mantissa == 0) return {};
    product.settle();
    return product;
  }
  Wide operator+(const Wide& other) const { return Wide(*this) += other; }

  double log() const {
    return mantissa == 0
               ? -std::numeric_limits<double>::infinity()
               : std::log(mantissa) + static_cast<double>(block) * 354.891356446692;  // 512 ln 2
  }
  // 0 or infinite where float64 ends.
  double value() const {
    return std::ldexp(mantissa, 512 * static_cast<int>(std::clamp<Index>(block, -8, 8)));
  }
};

}  // namespace mercer
