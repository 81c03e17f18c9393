// Runs the engine against reference vectors: a folder of .npz files and an
// INDEX.json that says for every array what it is and how exactly it must be
// met (docs/oracle-vectors.md). Handlers compute; this framework compares, and
// what was not compared is not a match: an array, a parameter or a file that
// nobody looked at is a failure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "assay/core/tensor.h"
#include "tests/oracle/parameters.h"

namespace assay::oracle {

// One file of the folder: its parameters and arrays. An array that a handler
// never took, but the index calls an input, is a failure.
class Case : public Parameters {
 public:
  struct Impl;
  explicit Case(std::shared_ptr<Impl> impl);

  std::string name() const;  // "norm_layernorm_f32"

  // as() relabels codes: uint16 as bf16 or f16, uint8 as an fp8 format, packed
  // fp4 (the last dimension then counts elements) or bool.
  bool has_array(std::string_view array) const;
  std::vector<std::string> arrays() const;
  Tensor array(std::string_view array) const;  // as stored
  Tensor as(std::string_view array, DType dtype) const;
  // In the dtype that the parameter "input" states: "float32", or uint16 codes
  // as "bf16 bits" or "fp16 bits". Without it uint16 is bf16, else as stored.
  Tensor input(std::string_view array) const;
  // The elements of a small array as numbers (codes undecoded).
  std::vector<double> values(std::string_view array) const;
  double scalar(std::string_view array) const;  // of one element
  // One dimension; a negative axis counts from the last.
  std::int64_t dim(std::string_view array, int axis) const;

 private:
  std::shared_ptr<Impl> impl_;
};

// What a handler computed, by array name.
class Answers {
 public:
  // `ours` in the dtype the engine gave it: bf16 against stored uint16 codes,
  // fp8 against uint8 codes, f32 or bf16 against float64. Shapes must agree
  // (packed fp4: bytes). A shape that has only ones added or removed counts as
  // different.
  void give(std::string_view array, Tensor ours);

  const std::map<std::string, Tensor, std::less<>>& given() const {
    return given_;
  }

 private:
  std::map<std::string, Tensor, std::less<>> given_;
};

using Handler = void (*)(const Case& c, Answers& answers);

// The handler of every file whose name starts with `prefix`; the longest
// prefix wins. At namespace scope of a handlers_<area>.cpp:
//   const Registration kNorms{"norm_", run_norms};
struct Registration {
  Registration(std::string_view prefix, Handler handler);
};

struct Outcome {
  std::string file;
  int arrays = 0;                     // compared
  std::vector<std::string> failures;  // one line each; empty: passed
};

// Runs every file of `folder` (or those whose name, with or without its
// extension, matches the glob `only`), in the order of its index. Vectors that
// the index does not list, and a wrong "count" of it, are failed outcomes at
// the end. Throws Error for an unreadable or malformed index.
std::vector<Outcome> run_folder(const std::filesystem::path& folder,
                                std::string_view only = "*");

}  // namespace assay::oracle
