// Fingerprints of weights and batches: what is the same, and what is nearly.
#include <charconv>
#include <map>
#include <set>

#include "assay/env/diff_rows.h"

namespace assay::env {
namespace {

std::optional<double> statistic(const TensorPrint& print, const char* name) {
  const auto found = print.statistics.find(name);
  if (found == print.statistics.end()) return std::nullopt;
  double value = 0;
  const std::string& text = found->second;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

RowSide side_of(const TensorPrint& print) {
  RowSide side;
  side.present = true;
  side.facts.dtype = parse_dtype(print.dtype);
  side.facts.dtype_text = print.dtype;
  side.facts.shape = Shape(print.shape.begin(), print.shape.end());
  side.digest = print.hash;
  side.value = print.placement;
  side.stats = {statistic(print, "max"), statistic(print, "min"),
                statistic(print, "mean"), statistic(print, "norm")};
  return side;
}

bool equal_form(const TensorPrint& a, const char* form, const TensorPrint& b,
                const char* other) {
  const auto x = a.as.find(form), y = b.as.find(other);
  return x != a.as.end() && y != b.as.end() && !x->second.empty() &&
         x->second == y->second;
}

// What two prints that differ have in common; "" for nothing that is known.
std::string likeness(const TensorPrint& golden, const TensorPrint& target) {
  if (equal_form(golden, "values", target, "values"))
    return golden.shape == target.shape ? "the same values in another dtype"
                                        : "the same values in another shape";
  for (const char* narrow : {"bfloat16", "float16"}) {
    if (equal_form(golden, narrow, target, "values"))
      return std::string("the golden's values rounded to ") + narrow;
    if (equal_form(golden, "values", target, narrow))
      return std::string("the target's values rounded to ") + narrow;
  }
  if (equal_form(golden, "rows", target, "rows"))
    return "the same rows in another order";
  if (equal_form(golden, "elements", target, "elements"))
    return "the same elements in another order: transposed or permuted";
  return "";
}

std::string shape_text(const TensorPrint& print) {
  return print.dtype + " " +
         assay::to_string(Shape(print.shape.begin(), print.shape.end()));
}

std::string difference(const TensorPrint& golden, const TensorPrint& target) {
  if (golden.dtype != target.dtype || golden.shape != target.shape)
    return shape_text(golden) + " against " + shape_text(target);
  return "other elements";
}

// Where a leaf of the golden's batches has the same elements.
using Places = std::map<std::string, std::vector<std::size_t>>;

Places places_of(const std::vector<Batch>& batches) {
  Places places;
  for (std::size_t i = 0; i < batches.size(); ++i)
    for (const TensorPrint& leaf : batches[i].leaves)
      if (!leaf.hash.empty()) places[leaf.name + leaf.hash].push_back(i);
  return places;
}

std::multiset<std::string> all_rows(const std::vector<Batch>& batches) {
  std::multiset<std::string> rows;
  for (const Batch& batch : batches)
    for (const TensorPrint& leaf : batch.leaves) {
      const auto found = leaf.as.find("each_row");
      if (found == leaf.as.end()) return {};
      std::string_view rest = found->second;
      for (; rest.size() >= 16; rest.remove_prefix(16))
        rows.insert(leaf.name + std::string(rest.substr(0, 16)));
    }
  return rows;
}

class BatchDiff {
 public:
  BatchDiff(const DiffSides& sides, DiffRows& rows)
      : golden_(sides.golden.batches),
        target_(sides.target.batches),
        rows_(rows),
        places_(places_of(golden_)),
        same_samples_(!golden_.empty() && !all_rows(golden_).empty() &&
                      all_rows(golden_) == all_rows(target_)) {}

  void run() {
    const std::size_t n = std::max(golden_.size(), target_.size());
    for (std::size_t i = 0; i < n; ++i)
      batch(i, i < golden_.size() ? &golden_[i] : nullptr,
            i < target_.size() ? &target_[i] : nullptr);
  }

 private:
  void batch(std::size_t number, const Batch* golden, const Batch* target) {
    std::map<std::string, std::pair<const TensorPrint*, const TensorPrint*>>
        leaves;
    if (golden)
      for (const TensorPrint& leaf : golden->leaves)
        leaves[leaf.name].first = &leaf;
    if (target)
      for (const TensorPrint& leaf : target->leaves)
        leaves[leaf.name].second = &leaf;
    for (const auto& [name, pair] : leaves) {
      Row row = print_row(pair.first, pair.second, Role::kInput);
      if (row.verdict == Verdict::kMismatch)
        row.cause = order_hint(number, *pair.second, row.cause);
      std::string key = "batch" + std::to_string(number);
      if (!name.empty()) key += "." + name;
      rows_.add(Section::kData, key, std::move(row));
    }
  }

  std::string order_hint(std::size_t number, const TensorPrint& target,
                         const std::string& otherwise) const {
    const auto found = places_.find(target.name + target.hash);
    if (found != places_.end() && !target.hash.empty() &&
        found->second.front() != number)
      return "another order of batches: this is the golden's batch " +
             std::to_string(found->second.front());
    if (!otherwise.empty()) return otherwise;
    if (same_samples_)
      return "the same samples over all batches, in another order";
    return "";
  }

  const std::vector<Batch>& golden_;
  const std::vector<Batch>& target_;
  DiffRows& rows_;
  const Places places_;
  const bool same_samples_;
};

}  // namespace

Row print_row(const TensorPrint* golden, const TensorPrint* target, Role role) {
  Row row;
  row.role = role;
  row.evidence = Evidence::kDigest;
  if (golden) row.golden = side_of(*golden);
  if (target) row.target = side_of(*target);
  if (!golden || !target) {
    judge(row, Verdict::kIncomplete, kOneSided,
          golden ? "not in the target" : "not in the golden");
  } else if (golden->hash.empty() || target->hash.empty()) {
    const TensorPrint& lacks = golden->hash.empty() ? *golden : *target;
    judge(row, Verdict::kIncomplete, "unreadable",
          lacks.unreadable.empty() ? "no fingerprint" : lacks.unreadable);
  } else if (golden->placement != target->placement) {
    judge(row, Verdict::kIncomplete, "placement",
          "other pieces of it: " +
              (golden->placement.empty() ? "whole" : golden->placement) +
              " against " +
              (target->placement.empty() ? "whole" : target->placement));
  } else if (golden->hash == target->hash && golden->dtype == target->dtype &&
             golden->shape == target->shape) {
    row.verdict = Verdict::kMatch;
  } else {
    judge(row, Verdict::kMismatch, kDiffers, difference(*golden, *target));
    row.cause = likeness(*golden, *target);
  }
  return row;
}

void diff_weights(const DiffSides& sides, DiffRows& rows) {
  std::map<std::string, const TensorPrint*> others;
  for (const TensorPrint& print : sides.target.weights)
    others[print.name] = &print;
  for (const TensorPrint& print : sides.golden.weights) {
    const auto found = others.find(print.name);
    const TensorPrint* other = found == others.end() ? nullptr : found->second;
    rows.add(Section::kWeights, print.name,
             print_row(&print, other, Role::kParameter));
    if (found != others.end()) others.erase(found);
  }
  for (const TensorPrint& print : sides.target.weights)
    if (others.count(print.name) != 0)
      rows.add(Section::kWeights, print.name,
               print_row(nullptr, &print, Role::kParameter));
}

void diff_batches(const DiffSides& sides, DiffRows& rows) {
  BatchDiff(sides, rows).run();
}

}  // namespace assay::env
