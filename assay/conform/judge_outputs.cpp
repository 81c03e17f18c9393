#include "assay/conform/judge_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/judge_tensor.h"
#include "assay/conform/merge.h"
#include "assay/conform/standards.h"

namespace assay::conform {
namespace {

const Tensor* find(const TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

// What a spec declares of an output in one case.
struct Declared {
  std::optional<Shape> shape;
  std::optional<DType> dtype;
};

Declared declared_of(const Spec& spec, const Output& output, const Case& c) {
  Declared declared;
  if (output.has_shape) {
    declared.shape.emplace();
    for (const Expression& size : output.shape)
      declared.shape->push_back(size.evaluate(c.parameters).integer());
  }
  if (output.dtype) {
    const std::string text = output.dtype->evaluate(c.parameters).text();
    declared.dtype = parse_dtype(text);
    if (!declared.dtype)
      throw Error(Code::kUsage,
                  fmt::format("{}: output {}: dtype '{}' is none", spec.path,
                              output.name, printable(text)));
  }
  return declared;
}

// Why a tensor is not what the spec declares, "" where it is.
std::string broken(const Declared& declared, const Tensor& tensor,
                   bool exact_bytes) {
  const bool shape_kept =
      !declared.shape || tensor.shape() == *declared.shape ||
      (exact_bytes && as_bytes(tensor).shape() == *declared.shape);
  if (!shape_kept)
    return fmt::format("shape {}, the spec declares {}",
                       assay::to_string(tensor.shape()),
                       assay::to_string(*declared.shape));
  if (exact_bytes || !declared.dtype || tensor.dtype() == *declared.dtype)
    return "";
  return fmt::format("dtype {}, the spec declares {}",
                     traits(tensor.dtype()).name, traits(*declared.dtype).name);
}

class OutputJudge {
 public:
  OutputJudge(const Spec& spec, const Case& c, const Outcome& golden,
              const Outcome& target)
      : spec_(spec), case_(c), golden_(golden), target_(target) {}

  std::vector<Check> run() {
    for (const Output& output : spec_.outputs) {
      if (output.when && !output.when->holds(case_.parameters)) continue;
      for (const std::string& name : names_of(output, case_)) {
        declared_.insert(name);
        judge(output, name);
      }
    }
    undeclared();
    return std::move(checks_);
  }

 private:
  static const Tensor* of_rank(const Outcome& side, std::size_t rank,
                               const std::string& name) {
    return rank < side.outputs.size() ? find(side.outputs[rank], name)
                                      : nullptr;
  }

  std::size_t ranks() const {
    return std::max({golden_.outputs.size(), target_.outputs.size(),
                     static_cast<std::size_t>(case_.ranks)});
  }

  void judge(const Output& output, const std::string& name) {
    const std::string text = standard_of(spec_, case_.parameters, output);
    const auto standard =
        load_standard(output.exact_bytes ? "exact" : text, spec_.path);
    const OpClass op = op_class_of(spec_, output);
    const Declared declared = declared_of(spec_, output, case_);
    std::vector<const Tensor*> golden, target;
    const std::size_t before = checks_.size();
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      golden.push_back(of_rank(golden_, rank, name));
      target.push_back(of_rank(target_, rank, name));
      const TensorPair pair{name, static_cast<int>(rank), golden.back(),
                            target.back()};
      if (!keeps(declared, output.exact_bytes, pair)) continue;
      checks_.push_back(judge_one(pair, output, *standard, op));
    }
    if (ranks() > 1)
      judge_merged(output, name, golden, target, *standard, op, before);
  }

  // Whether a check from the one of that number on is a match.
  bool any_match(std::size_t before) const {
    return std::any_of(checks_.begin() + static_cast<std::ptrdiff_t>(before),
                       checks_.end() - 1, [](const Check& check) {
                         return check.verdict == Verdict::kMatch;
                       });
  }

  static Check judge_one(TensorPair pair, const Output& output,
                         const Standard& standard, OpClass op) {
    if (!output.exact_bytes) return judge_tensors(pair, standard, op);
    Tensor golden, target;
    if (pair.golden) golden = as_bytes(*pair.golden);
    if (pair.target) target = as_bytes(*pair.target);
    if (pair.golden) pair.golden = &golden;
    if (pair.target) pair.target = &target;
    return judge_tensors(pair, standard, op);
  }

  // False, with a mismatch, where a side breaks what the spec declares.
  bool keeps(const Declared& declared, bool exact_bytes,
             const TensorPair& pair) {
    for (const auto& [side, tensor] :
         {std::pair("golden", pair.golden), std::pair("target", pair.target)}) {
      if (!tensor) continue;
      const std::string why = broken(declared, *tensor, exact_bytes);
      if (why.empty()) continue;
      checks_.push_back(make_check(pair.name, pair.rank, Verdict::kMismatch,
                                   "declared",
                                   fmt::format("{}: {}", side, why)));
      return false;
    }
    return true;
  }

  void judge_merged(const Output& output, const std::string& name,
                    const std::vector<const Tensor*>& golden,
                    const std::vector<const Tensor*>& target,
                    const Standard& standard, OpClass op, std::size_t before) {
    if (output.merge.kind == Merge::Kind::kEach) return;
    if (output.merge.kind == Merge::Kind::kSame) {
      checks_.push_back(judge_same(name, target));
      // The same nothing on every rank is no evidence either.
      if (checks_.back().verdict == Verdict::kMatch && !any_match(before))
        checks_.back().verdict = Verdict::kEmpty;
      return;
    }
    try {
      const std::optional<Tensor> a = merged(output.merge, golden);
      const std::optional<Tensor> b = merged(output.merge, target);
      TensorPair pair{name, -1, a ? &*a : nullptr, b ? &*b : nullptr};
      checks_.push_back(judge_one(pair, output, standard, op));
    } catch (const Error& error) {
      checks_.push_back(
          make_check(name, -1, Verdict::kMismatch, "merge", error.what()));
    }
  }

  void undeclared() {
    std::set<std::pair<std::string, std::size_t>> seen;
    for (const Outcome* side : {&golden_, &target_})
      for (std::size_t rank = 0; rank < side->outputs.size(); ++rank)
        for (const auto& [name, tensor] : side->outputs[rank])
          if (declared_.count(name) == 0) seen.emplace(name, rank);
    for (const auto& [name, rank] : seen) {
      const bool a = of_rank(golden_, rank, name) != nullptr;
      const bool b = of_rank(target_, rank, name) != nullptr;
      checks_.push_back(
          make_check(printable(name), static_cast<int>(rank),
                     Verdict::kIncomplete, "undeclared",
                     fmt::format("given by {}, but {} does not declare it",
                                 a && b ? "both sides"
                                 : a    ? "the golden"
                                        : "the target",
                                 spec_.path)));
    }
  }

  const Spec& spec_;
  const Case& case_;
  const Outcome& golden_;
  const Outcome& target_;
  std::set<std::string> declared_;
  std::vector<Check> checks_;
};

}  // namespace

std::vector<std::string> names_of(const Output& output, const Case& c) {
  if (!output.each_step || c.steps == 1) return {output.name};
  std::vector<std::string> names;
  for (int step = 1; step <= c.steps; ++step)
    names.push_back(fmt::format("{}.step{}", output.name, step));
  return names;
}

std::vector<Check> judge_outputs(const Spec& spec, const Case& c,
                                 const Outcome& golden, const Outcome& target) {
  return OutputJudge(spec, c, golden, target).run();
}

std::vector<Check> judge_repetition(const Outcome& first,
                                    const Outcome& second) {
  std::vector<Check> checks;
  for (std::size_t rank = 0; rank < first.outputs.size(); ++rank)
    for (const auto& [name, tensor] : first.outputs[rank]) {
      const Tensor* other = rank < second.outputs.size()
                                ? find(second.outputs[rank], name)
                                : nullptr;
      if (other && same_bytes(tensor, *other)) continue;
      checks.push_back(
          make_check("again." + printable(name), static_cast<int>(rank),
                     Verdict::kMismatch, "deterministic",
                     other ? "two runs of the target give other bytes"
                           : "the second run of the target does not give it"));
    }
  if (first.contract != second.contract)
    checks.push_back(make_check("again.contract", 0, Verdict::kMismatch,
                                "deterministic",
                                "two runs of the target give other contracts"));
  if (checks.empty())
    checks.push_back(make_check("again", 0, Verdict::kMatch, "", ""));
  return checks;
}

}  // namespace assay::conform
