// The words of our capture format, for its writer and its reader.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "assay/trace/trace.h"

namespace assay {

inline constexpr std::string_view kCaptureFile = "trace.jsonl";
inline constexpr int kCaptureVersion = 1;

inline constexpr std::array<std::string_view, 5> kRoleWords = {
    "input", "output", "parameter", "gradient", "tensor"};
inline constexpr std::array<std::string_view, 4> kDirectionWords = {
    "", "forward", "backward", "parameters_grad"};

template <typename Enum, std::size_t n>
constexpr std::string_view word_of(const std::array<std::string_view, n>& words,
                                   Enum value) {
  return words[static_cast<std::size_t>(value)];
}

template <typename Enum, std::size_t n>
std::optional<Enum> value_of(const std::array<std::string_view, n>& words,
                             std::string_view word) {
  for (std::size_t i = 0; i < n; ++i)
    if (words[i] == word) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace assay
