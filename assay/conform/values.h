// The kinds of values that a spec can ask for in an input: normal, near_zero,
// special, routing ... docs/conform.md describes each.
//
// Every element is a function of (key, index) by Philox and of +, -, *, / and
// sqrt alone: libraries differ in the last bit of log and cos, and a golden's
// inputs must be the same bytes on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/value.h"
#include "assay/core/dtype.h"
#include "assay/core/shape.h"

namespace assay::conform {

// One input to be drawn.
struct Draw {
  DType dtype = DType::kF32;
  Shape shape;
  std::int64_t numel = 0;
  std::byte* data = nullptr;  // contiguous, zeroed
  std::uint64_t key = 0;      // of the generator
  std::map<std::string, Value> options;
  std::string where;  // "specs/linear.yaml:32: input x", for messages

  // An option, or what stands where it is not given. Throw Error{kUsage} for
  // another type; the first two also where there is no value at all.
  std::int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  std::int64_t integer(const std::string& name, std::int64_t absent) const;
  double number(const std::string& name, double absent) const;
  bool flag(const std::string& name, bool absent) const;

  // Rows of the last dimension; a tensor of no dimension is one row of one.
  std::int64_t columns() const;
  std::int64_t rows() const { return columns() ? numel / columns() : 0; }

  // Stores a whole number; throws where the dtype has no such value.
  void put(std::int64_t index, std::int64_t value) const;

  [[noreturn]] void fail(const std::string& what) const;
};

struct ValueKind {
  std::string_view name;
  bool floats;  // for float and complex dtypes alone
  std::vector<std::string_view> options;
  void (*draw)(const Draw& draw);
};

std::span<const ValueKind> value_kinds();                 // by name
const ValueKind* find_value_kind(std::string_view name);  // or null

// The kinds, one function each.
void draw_normal(const Draw& draw);
void draw_uniform(const Draw& draw);
void draw_near_zero(const Draw& draw);
void draw_wide(const Draw& draw);
void draw_special(const Draw& draw);
void draw_positive(const Draw& draw);
void draw_zeros(const Draw& draw);
void draw_ones(const Draw& draw);
void draw_constant(const Draw& draw);
void draw_probabilities(const Draw& draw);

void draw_integers(const Draw& draw);
void draw_arange(const Draw& draw);
void draw_mask(const Draw& draw);
void draw_permutation(const Draw& draw);
void draw_sorted(const Draw& draw);
void draw_labels(const Draw& draw);
void draw_codes(const Draw& draw);
void draw_one_hot(const Draw& draw);
void draw_routing(const Draw& draw);
void draw_splits(const Draw& draw);
void draw_cu_seqlens(const Draw& draw);

}  // namespace assay::conform
