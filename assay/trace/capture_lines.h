// The lines of trace.jsonl, as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/trace/capture_writer.h"

namespace assay {

// Whole lines, with their end.
std::string header_line(const CaptureOptions& options);
std::string stack_line(const std::vector<std::string>& frames);
std::string op_line(const Op& op, std::string_view autocast);
// The beginning of a leaf's line; members are added, then "}" and its end.
std::string leaf_begin(const CaptureLeaf& leaf);

// `,"key":value`. A NaN is left out: without a finite element there is nothing
// to say.
void add_text(std::string& line, std::string_view key, std::string_view text);
void add_text_unless_empty(std::string& line, std::string_view key,
                           std::string_view text);
void add_integer(std::string& line, std::string_view key, std::int64_t value);
void add_integer_unless_zero(std::string& line, std::string_view key,
                             std::int64_t value);
void add_integers(std::string& line, std::string_view key,
                  const std::vector<std::int64_t>& values);
void add_number(std::string& line, std::string_view key, double value);

}  // namespace assay
