// Runs the engine against reference vectors: a folder of .npz files and an
// INDEX.json that says for every array what it is and how exactly it must be
// met. Handlers compute; this framework compares and never lets an array that
// nobody computed pass.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/core/tensor.h"

namespace assay::oracle {

// One file of the folder: its parameters and arrays.
class Case {
 public:
  struct Impl;
  explicit Case(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::string name() const;  // "norm_layernorm_f32"
  std::string area() const;  // "7 normalization"

  // Parameters. The plain forms throw Error{kUsage} for one that is absent or
  // of another type; has() is false for an absent or null one.
  bool has(std::string_view parameter) const;
  double number(std::string_view parameter) const;
  bool flag(std::string_view parameter) const;
  std::string text(std::string_view parameter) const;
  std::vector<double> numbers(std::string_view parameter) const;  // a list

  // Arrays. as() relabels codes: uint16 as bf16 or f16, uint8 as an fp8
  // format, packed fp4 (the last dimension then counts elements) or bool.
  bool has_array(std::string_view array) const;
  std::vector<std::string> arrays() const;
  Tensor array(std::string_view array) const;  // as stored
  Tensor as(std::string_view array, DType dtype) const;
  // uint16 as bf16 unless the case's parameter "input" says fp16; else as
  // stored.
  Tensor input(std::string_view array) const;
  // The elements of a small array as numbers (codes undecoded).
  std::vector<double> values(std::string_view array) const;

  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
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

// Runs every file of `folder` (or those whose name matches the glob `only`),
// in the order of its index. Throws Error for an unreadable index.
std::vector<Outcome> run_folder(const std::filesystem::path& folder,
                                std::string_view only = "*");

}  // namespace assay::oracle
