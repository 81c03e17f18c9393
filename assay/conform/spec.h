// One conformance module: what specs/<module>.yaml declares. docs/conform.md
// shows every key with an example.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assay/base/hash.h"
#include "assay/conform/expression.h"
#include "assay/conform/value.h"

namespace assay::conform {

// `small` takes seconds a module, `real` has the shapes of language models.
enum class Tier : std::uint8_t { kSmall, kReal };
std::string_view to_string(Tier tier);   // "small", "real"
Tier parse_tier(std::string_view text);  // throws Error{kUsage}

// A hyperparameter and the values that cases draw from, in each tier.
struct Parameter {
  std::string name;
  std::vector<Value> small, real;
  const std::vector<Value>& values(Tier tier) const {
    return tier == Tier::kSmall ? small : real;
  }
};

// How the elements of an input are drawn: docs/conform.md lists the kinds
// (normal, uniform, near_zero, wide, special, integers, ...). `kind` and every
// option are expressions over the parameters.
struct Values {
  Expression kind;
  std::map<std::string, Expression> options;  // scale, low, high, share ...
};

struct Input {
  std::string name;
  std::vector<Expression> shape;
  Expression dtype;  // text: "bfloat16", or the name of a parameter
  Values values;
  std::optional<Expression> when;     // absent: in every case
  std::optional<Expression> strided;  // true: given as a view with strides
};

// How the parts of several ranks are put together (merged comparison).
struct Merge {
  enum class Kind : std::uint8_t { kEach, kSame, kConcatenate, kSum } kind;
  int dimension = 0;  // of kConcatenate
};

struct Output {
  std::string name;
  // Where given, both sides are held to it: a shape without dimensions is
  // given with has_shape.
  std::vector<Expression> shape;
  bool has_shape = false;
  std::optional<Expression> dtype;
  std::optional<Expression> when;
  // Bytes are compared one by one as uint8, whatever FP8 or integer dtype
  // either side gives them.
  bool exact_bytes = false;
  // Under which operator class the `assay` standard judges it: "gemm",
  // "reduction", "elementwise", "movement"; "" for none in particular.
  std::string op_class;
  std::string standard;    // "" for that of the spec
  bool each_step = false;  // "y.step1" ... "y.stepN"
  Merge merge = {Merge::Kind::kEach};
};

// A standard and when it is used; the first that fits decides.
struct StandardRule {
  std::optional<Expression> when;
  // A name (assay, exact, allclose, mare, mixed_tolerance, te-tests, or one of
  // `assay doctor`), or a whole standard as the YAML of standards/*.yaml.
  std::string standard;
};

// A case that every implementation has to refuse; of the small tier.
struct Invalid {
  std::string name;
  Parameters parameters;  // the others take their first value
};

struct Spec {
  std::string module;
  std::string summary;
  std::string path;  // of the file, or "specs/linear.yaml" of a shipped one
  std::vector<std::string> api;  // full names that this module guards
  std::uint64_t seed = 1;
  std::vector<Parameter> parameters;
  std::vector<Expression> constraints;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  int small_steps = 1, real_steps = 1;
  std::vector<std::string> contract;  // fields compared exactly
  std::vector<StandardRule> standard;
  bool deterministic = true;  // two runs of one worker give the same bytes
  // Partial: cases that are always there. One belongs to the real tier where
  // all its values are among that tier's, and to the small one unless some
  // value is among the real ones alone.
  std::vector<Parameters> pinned;
  std::vector<Invalid> invalid;
  Hash128 hash;  // of the text
  // Where things stand in the file: "parameters.tokens", "inputs.x",
  // "outputs.y", "pinned.0", "invalid.odd_features", "contract", "api.2", ...
  std::map<std::string, int> lines;

  int steps(Tier tier) const {
    return tier == Tier::kSmall ? small_steps : real_steps;
  }
};

// Throws Error{kUsage} "specs/linear.yaml:12: ..." for a key that is unknown,
// missing or of another type, and for names that no parameter has.
Spec parse_spec(const std::string& yaml, const std::string& path);

// The shipped ones where `folder` is empty, or those of a folder (every *.yaml
// directly in it) or of one file, by name. Throws Error, also where a file is
// not named after its module.
std::vector<Spec> load_specs(const std::string& folder);
// The named ones, all where `modules` is empty; an unknown name is
// Error{kUsage} with the nearest.
std::vector<Spec> select_specs(std::vector<Spec> specs,
                               const std::vector<std::string>& modules);

}  // namespace assay::conform
