// Small text helpers: what the standard library lacks and several folders
// need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
bool iequals(std::string_view a, std::string_view b);  // ASCII case

// Shell-like: '*' any run, '?' one character, everything else itself.
bool glob_match(std::string_view pattern, std::string_view text);

// "step_2" before "step_10": runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

bool is_valid_utf8(std::string_view bytes);
// Safe to print: control characters and invalid UTF-8 as \xNN, quotes and
// backslashes with a backslash.
std::string printable(std::string_view bytes);

std::string human_bytes(std::int64_t bytes);  // "3.9 GB" (powers of 1000)
std::string human_count(std::int64_t count);  // "41,203"
std::string human_seconds(double seconds);    // "0.40 s", "2 min 10 s"
std::string format_double(double value);      // shortest that round-trips
std::string format_figure(double value);      // "4.70e-04", "0.9998"

// The candidate closest to `word` by edit distance, "" when none is near.
std::string closest(std::string_view word,
                    const std::vector<std::string>& candidates);

}  // namespace assay
