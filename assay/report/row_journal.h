// Rows of a comparison, a line each as they come: what is left of a process
// that was killed, and how it hands them to another.
//
// A line is a JSON object with one of the members
//   row      a row of the JSON report (docs/json-output.md), with op, api, step
//   skipped  [{api, why, verdict, calls}], all there are so far: the last holds
//   left_out calls not in the sample so far
//   warning  a text
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

#include "assay/compare/comparison.h"
#include "assay/compare/perturbation/collection.h"

namespace assay {

class RowJournal {
 public:
  // A new file. Throws Error{kUnreadable}, as every other member does where
  // the disk is full.
  explicit RowJournal(const std::filesystem::path& path);
  ~RowJournal();
  RowJournal(const RowJournal&) = delete;
  RowJournal& operator=(const RowJournal&) = delete;

  // `row`: of `comparison`.
  void row(const Comparison& comparison, const Row& row,
           const perturbation::Place& place);
  void counts(const perturbation::Collection& collection);
  void warning(const std::string& text);

 private:
  void line(const std::string& text);
  const std::filesystem::path path_;
  std::FILE* file_;
};

}  // namespace assay
