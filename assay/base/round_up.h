// How many steps cover a length, and the length they have together.
#pragma once

#include <type_traits>

namespace assay {

// For n >= 0 and step > 0 with n + step within the type.
template <typename Integer>
constexpr Integer ceil_div(Integer n, std::type_identity_t<Integer> step) {
  return (n + step - 1) / step;
}

template <typename Integer>
constexpr Integer round_up(Integer n, std::type_identity_t<Integer> step) {
  return ceil_div(n, step) * step;
}

}  // namespace assay
