#include "assay/compare/overflow/range.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "assay/base/text.h"
#include "assay/compare/provenance.h"
#include "assay/metrics/tensor_summary.h"
#include "assay/numerics/float_format.h"

namespace assay {
namespace {

class RangeFinder {
 public:
  RangeFinder(const Trace& trace, const Scan& scan,
              const std::vector<Meaning>& meanings,
              const std::vector<std::string>& only, OverflowReport& out)
      : trace_(trace),
        scan_(scan),
        meanings_(meanings),
        only_(only),
        out_(out) {}

  void run() {
    for (std::uint32_t i = 0; i < trace_.records.size(); ++i) look_at(i);
  }

 private:
  void look_at(std::uint32_t i) {
    const Record& record = trace_.records[i];
    const ValueState& value = scan_.values[i];
    if (!record.is_tensor || !record.facts.dtype || !value.known ||
        meanings_[i] != Meaning::kValue) {
      return;
    }
    const DType dtype = *record.facts.dtype;
    const bool quantised = saturates(dtype);
    if (!quantised && dtype != DType::kF16) return;
    const bool lost = quantised && (value.saturated > 0 || value.zeros > 0);
    const bool near = value.largest() > max_finite(dtype) / 2 &&
                      dtype != DType::kE2M1 && value.saturated <= 0;
    if ((!lost && !near) || !wanted(record) || seen_before(record)) return;
    if (near && is_argument(record, value.largest())) return;
    const RangeNote note = describe(i, dtype);
    if (lost) out_.quantised.push_back(note);
    if (near) out_.near.push_back(note);
  }

  bool wanted(const Record& record) const {
    if (only_.empty()) return true;
    const std::string name = trace_.name(record);
    return std::any_of(only_.begin(), only_.end(), [&](const auto& glob) {
      return glob_match(glob, trace_.ops[record.op].name) ||
             glob_match(glob, name);
    });
  }

  bool seen_before(const Record& record) {
    const auto key = fingerprint(record.facts, record.stats, record.digest);
    return key && !seen_.insert(*key).second;
  }

  template <typename F>
  bool any_input(std::uint32_t op, F&& fits) const {
    const std::uint32_t first = trace_.ops[op].first_record;
    for (std::uint32_t i = first; i < first + trace_.ops[op].record_count;
         ++i) {
      if (trace_.records[i].role == Role::kInput && fits(i)) return true;
    }
    return false;
  }

  bool is_argument(const Record& record, double magnitude) const {
    return any_input(record.op, [&](std::uint32_t i) {
      const Record& input = trace_.records[i];
      if (input.is_tensor || input.value.empty()) return false;
      double value = 0;
      const char* end = input.value.data() + input.value.size();
      const auto parsed = std::from_chars(input.value.data(), end, value);
      return parsed.ptr == end && std::abs(value) == magnitude;
    });
  }

  RangeNote describe(std::uint32_t i, DType dtype) const {
    const Record& record = trace_.records[i];
    const ValueState& value = scan_.values[i];
    RangeNote note;
    note.step = trace_.step;
    note.rank = trace_.rank;
    note.name = trace_.name(record);
    note.dtype = traits(dtype).name;
    note.largest = value.largest();
    note.dtype_max = max_finite(dtype);
    note.count = value.count;
    note.saturated = value.saturated;
    note.zeros = value.zeros;
    if (saturates(dtype) && record.role == Role::kOutput && value.zeros >= 0)
      note.underflow = underflow(record.op, value);
    return note;
  }

  // Against the first input of as many elements in a wider float.
  std::int64_t underflow(std::uint32_t op, const ValueState& codes) const {
    std::int64_t zeros = -1;
    any_input(op, [&](std::uint32_t i) {
      const auto dtype = trace_.records[i].facts.dtype;
      const ValueState& value = scan_.values[i];
      if (!trace_.records[i].is_tensor || !dtype || !is_float(*dtype) ||
          saturates(*dtype) || value.count != codes.count || value.zeros < 0) {
        return false;
      }
      zeros = value.zeros;
      return true;
    });
    if (zeros < 0) return -1;
    return std::max<std::int64_t>(0, codes.zeros - zeros);
  }

  const Trace& trace_;
  const Scan& scan_;
  const std::vector<Meaning>& meanings_;
  const std::vector<std::string>& only_;
  OverflowReport& out_;
  std::unordered_set<Hash128, HashOfFingerprint> seen_;
};

}  // namespace

double RangeNote::share() const {
  const std::int64_t lost = std::max({saturated, underflow, std::int64_t{0}});
  return count > 0 ? static_cast<double>(lost) / static_cast<double>(count) : 0;
}

void find_range_notes(const Trace& trace, const Scan& scan,
                      const std::vector<Meaning>& meanings,
                      const std::vector<std::string>& only,
                      OverflowReport& out) {
  RangeFinder(trace, scan, meanings, only, out).run();
}

}  // namespace assay
