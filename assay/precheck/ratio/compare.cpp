#include "assay/precheck/ratio/compare.h"

#include <algorithm>
#include <memory_resource>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "assay/base/parallel.h"
#include "assay/base/text.h"
#include "assay/compare/summary.h"
#include "assay/precheck/detail/row_name.h"

namespace assay::precheck {
namespace {

constexpr std::int64_t kRowsOfJob = 1024;

// A row of the result: indices into both files, -1 for none.
struct Pairing {
  std::int64_t device = -1, reference = -1;
  std::uint32_t call = 0;
  bool backward = false;
  bool twice = false;
};

class Join {
 public:
  Join(const std::vector<Detail>& device, const std::vector<Detail>& reference)
      : device_(device), reference_(reference) {
    pairs_.reserve(device.size());
    index_.reserve(std::max(device.size(), reference.size()));
    for (std::size_t i = 0; i < reference.size(); ++i) {
      Entry& entry = index_[reference[i].name];
      ++entry.references;
      entry.reference = static_cast<std::int64_t>(i);
    }
    for (const Detail& detail : device) ++index_[detail.name].devices;
    for (std::size_t i = 0; i < device.size(); ++i) add_device(i);
    for (std::size_t i = 0; i < reference.size(); ++i) add_reference(i);
    order();
  }

  std::vector<Pairing> pairs_;
  std::vector<std::string_view> calls_;

 private:
  struct Entry {
    std::int64_t devices = 0, references = 0, reference = -1;
  };

  void add_device(std::size_t i) {
    const Entry& entry = index_[device_[i].name];
    Pairing pair = named(device_[i]);
    pair.device = static_cast<std::int64_t>(i);
    pair.twice = entry.devices > 1 || entry.references > 1;
    if (!pair.twice) pair.reference = entry.reference;
    pairs_.push_back(pair);
  }
  void add_reference(std::size_t i) {
    const Entry& entry = index_[reference_[i].name];
    if (entry.devices > 0) return;
    Pairing pair = named(reference_[i]);
    pair.reference = static_cast<std::int64_t>(i);
    pair.twice = entry.references > 1;
    pairs_.push_back(pair);
  }
  Pairing named(const Detail& detail) {
    const std::optional<RowName> name = parse_row_name(detail.name);
    const std::string_view call = name ? name->call : detail.name;
    const auto [at, added] = call_index_.try_emplace(
        call, static_cast<std::uint32_t>(calls_.size()));
    if (added) calls_.push_back(call);
    Pairing pair;
    pair.call = at->second;
    pair.backward = name && name->backward;
    return pair;
  }
  void order() {
    std::stable_sort(
        pairs_.begin(), pairs_.end(), [](const Pairing& a, const Pairing& b) {
          return std::pair(a.call, a.backward) < std::pair(b.call, b.backward);
        });
  }

  const std::vector<Detail>& device_;
  const std::vector<Detail>& reference_;
  std::pmr::monotonic_buffer_resource memory_;  // freed at once
  std::pmr::unordered_map<std::string_view, Entry> index_{&memory_};
  std::pmr::unordered_map<std::string_view, std::uint32_t> call_index_{
      &memory_};
};

// "(4, 16)".
Shape shape_of(std::string_view text) {
  Shape shape;
  if (text.size() < 2) return shape;
  for (const std::string_view part :
       split(text.substr(1, text.size() - 2), ',')) {
    const std::string digits(trim(part));
    if (digits.empty()) continue;
    if (digits.size() > 18 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      return {};
    shape.push_back(std::stoll(digits));
  }
  return shape;
}

// The figures that rules ask for, as the reports show a side.
std::string figures_text(const Detail& detail) {
  std::string text;
  const auto add = [&](std::string_view name,
                       const std::optional<double>& value) {
    if (!value) return;
    text += text.empty() ? "" : ", ";
    text.append(name).append(" ").append(format_figure(*value));
  };
  add("rmse", detail.rmse);
  add("max rel", detail.max_rel);
  add("mean rel", detail.mean_rel);
  add("small-value errors", detail.small_value_error_ratio);
  add("inf/nan errors", detail.inf_nan_error_ratio);
  add("relative errors", detail.rel_error_ratio);
  add("absolute errors", detail.abs_error_ratio);
  add("ulps over", detail.ulp_over_threshold);
  add("differ", detail.binary_error_rate);
  return text;
}

RowSide side_of(const Detail& detail) {
  RowSide side;
  side.present = true;
  side.name = detail.name;
  side.facts.dtype = parse_dtype(detail.device_dtype);
  side.facts.dtype_text = detail.device_dtype;
  side.facts.shape = shape_of(detail.shape);
  side.value = figures_text(detail);
  return side;
}

class Builder {
 public:
  Builder(const std::vector<Detail>& device,
          const std::vector<Detail>& reference, const RatioOptions& options)
      : device_(device),
        reference_(reference),
        options_(options),
        join_(device, reference) {}

  RatioResult build() {
    const std::size_t count = join_.pairs_.size();
    result_.rows.resize(count);
    result_.comparison.rows.resize(count);
    const auto rows = static_cast<std::int64_t>(count);
    parallel_for((rows + kRowsOfJob - 1) / kRowsOfJob, [&](std::int64_t job) {
      const std::int64_t end = std::min(rows, (job + 1) * kRowsOfJob);
      for (std::int64_t i = job * kRowsOfJob; i < end; ++i)
        build_row(static_cast<std::size_t>(i));
    });
    describe();
    return std::move(result_);
  }

 private:
  RatioRow judge(const Pairing& pair) const {
    const Detail& any = pair.device >= 0 ? device(pair) : reference(pair);
    if (pair.twice)
      return unpaired_ratio(any, "a side has this name more than once",
                            "stops at a name that the reference has twice");
    if (pair.device < 0)
      return unpaired_ratio(any, "the reference alone has this output",
                            "has no row for it");
    if (pair.reference < 0)
      return unpaired_ratio(any, "the device alone has this output",
                            "has no row for it");
    return judge_ratio(device(pair), reference(pair), options_);
  }

  void build_row(std::size_t i) {
    const Pairing& pair = join_.pairs_[i];
    RatioRow& judged = result_.rows[i];
    judged = judge(pair);
    Row& row = result_.comparison.rows[i];
    row.op = pair.call;
    row.role = Role::kOutput;
    row.is_tensor = false;
    if (pair.reference >= 0) row.golden = side_of(reference(pair));
    if (pair.device >= 0) row.target = side_of(device(pair));
    row.verdict = judged.judgement.verdict;
    row.reasons = std::move(judged.judgement.reasons);
    judged.judgement.reasons.clear();
    // Shapes and dtypes that differ were compared too.
    const bool compared = judged.rule || row.verdict == Verdict::kMismatch;
    row.evidence = compared ? Evidence::kValue : Evidence::kNone;
  }

  void describe() {
    Comparison& c = result_.comparison;
    c.standard = options_.profile->name;
    c.standard_source = options_.profile->source;
    c.standard_date = options_.profile->date;
    if (join_.pairs_.empty()) return summarise(c);
    Group& group = c.groups.emplace_back();
    group.ops.resize(join_.calls_.size());
    for (std::size_t i = 0; i < group.ops.size(); ++i) {
      group.ops[i].name = join_.calls_[i];
      group.ops[i].api =
          group.ops[i].name.substr(0, group.ops[i].name.rfind('.'));
    }
    for (std::size_t i = 0; i < c.rows.size(); ++i) add_to_op(group, i);
    summarise(c);
    name_the_first();
  }
  // Worst of its rows: mismatch, incomplete, match, empty.
  void add_to_op(Group& group, std::size_t i) {
    const Row& row = result_.comparison.rows[i];
    OpRow& op = group.ops[row.op];
    if (op.row_count++ == 0) {
      op.first_row = static_cast<std::uint32_t>(i);
      op.verdict = row.verdict;
      return;
    }
    for (const Verdict v :
         {Verdict::kMismatch, Verdict::kIncomplete, Verdict::kMatch})
      if (op.verdict == v || row.verdict == v) {
        op.verdict = v;
        return;
      }
  }
  void name_the_first() {
    Comparison& c = result_.comparison;
    for (std::size_t i = 0; i < c.rows.size(); ++i) {
      if (c.rows[i].verdict != Verdict::kMismatch) continue;
      Divergence& d = c.first_divergence.emplace();
      d.row = i;
      d.name = c.groups[0].ops[c.rows[i].op].name;
      // A call is replayed from inputs of its own: what differs arose in it.
      d.kind = "born";
      d.input_note = "no input of it was computed by another call";
      if (const Reason* reason = deciding_reason(c.rows[i]))
        d.reason = reason->text;
      c.rows[i].origin = Origin::kBorn;
      break;
    }
    for (Row& row : c.rows)
      if (row.verdict == Verdict::kMismatch) row.origin = Origin::kBorn;
    summarise(c);
  }

  const Detail& device(const Pairing& pair) const {
    return device_[static_cast<std::size_t>(pair.device)];
  }
  const Detail& reference(const Pairing& pair) const {
    return reference_[static_cast<std::size_t>(pair.reference)];
  }

  const std::vector<Detail>& device_;
  const std::vector<Detail>& reference_;
  const RatioOptions& options_;
  Join join_;
  RatioResult result_;
};

}  // namespace

RatioResult compare_devices(const std::vector<Detail>& device,
                            const std::vector<Detail>& reference,
                            const RatioOptions& options) {
  return Builder(device, reference, options).build();
}

}  // namespace assay::precheck
