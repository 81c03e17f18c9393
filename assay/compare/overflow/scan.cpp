#include "assay/compare/overflow/scan.h"

#include <exception>
#include <mutex>
#include <set>

#include "assay/base/parallel.h"
#include "assay/metrics/tensor_summary.h"

namespace assay {
namespace {

// Larger tensors are read by all threads together, one at a time.
constexpr std::int64_t kLarge = 4 << 20;

bool is_small_float(const Record& record) {
  return record.is_tensor && record.facts.dtype &&
         saturates(*record.facts.dtype);
}

bool has_file(const Record& record) {
  return !record.file.empty() && record.unreadable.empty();
}

class Scanner {
 public:
  Scanner(Trace& trace, const std::atomic<bool>* stop,
          const std::function<void(std::int64_t)>& read)
      : trace_(trace), stop_(stop), read_(read) {}

  Scan run() {
    scan_.values.reserve(trace_.records.size());
    for (const Record& record : trace_.records) {
      scan_.values.push_back(state_from_statistics(record));
    }
    wanted_.resize(trace_.records.size());
    for (std::uint32_t i = 0; i < wanted_.size(); ++i) choose(i);
    for (const Op& op : trace_.ops) choose_sources(op);
    load();
    return std::move(scan_);
  }

 private:
  void choose(std::uint32_t i) {
    const Record& record = trace_.records[i];
    const ValueState& state = scan_.values[i];
    if (is_small_float(record) && state.count != 0) {
      if (state.saturated < 0 || state.zeros < 0) wanted_[i] = has_file(record);
    }
    if (state.known) return;
    if (has_file(record)) {
      wanted_[i] = true;
    } else {
      scan_.unseen[i] = why_unseen(record);
    }
  }

  // What became zero by quantisation is told by the zeros of what went in.
  void choose_sources(const Op& op) {
    const std::uint32_t end = op.first_record + op.record_count;
    std::set<std::int64_t> quantised;  // element counts
    for (std::uint32_t i = op.first_record; i < end; ++i) {
      const Record& record = trace_.records[i];
      if (record.role == Role::kOutput && is_small_float(record))
        quantised.insert(scan_.values[i].count);
    }
    if (quantised.empty()) return;
    for (std::uint32_t i = op.first_record; i < end; ++i) {
      const Record& record = trace_.records[i];
      if (record.role == Role::kInput && record.is_tensor &&
          scan_.values[i].zeros < 0 && has_file(record) &&
          quantised.contains(scan_.values[i].count)) {
        wanted_[i] = true;
      }
    }
  }

  static std::string why_unseen(const Record& record) {
    if (!record.unreadable.empty()) return record.unreadable;
    return record.digest.empty()
               ? "the dump kept neither statistics nor elements"
               : "the dump kept only a checksum";
  }

  std::int64_t size_of(std::uint32_t i) const {
    const SideFacts& facts = trace_.records[i].facts;
    const auto count = checked_numel(facts.shape);
    const auto bytes = facts.dtype && count
                           ? storage_bytes(*facts.dtype, *count)
                           : std::nullopt;
    return bytes.value_or(0);
  }

  void load() {
    std::vector<std::uint32_t> small, large;
    for (std::uint32_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i]) (size_of(i) < kLarge ? small : large).push_back(i);
    }
    parallel_for(static_cast<std::int64_t>(small.size()),
                 [&](std::int64_t i) { load_one(small[i], false); });
    for (const std::uint32_t i : large) load_one(i, true);
  }

  void load_one(std::uint32_t i, bool parallel) {
    if (stop_ && stop_->load()) return not_read(i, "interrupted before it");
    try {
      Record& record = trace_.records[i];
      scan_.values[i] = state_from_elements(trace_, record, parallel);
      if (read_) read_(size_of(i));
    } catch (const std::exception& error) {
      not_read(i, error.what());
    }
  }

  void not_read(std::uint32_t i, const std::string& why) {
    if (scan_.values[i].known) return;  // by its statistics
    std::lock_guard lock(mutex_);
    scan_.unseen[i] = why;
  }

  Trace& trace_;
  const std::atomic<bool>* stop_;
  const std::function<void(std::int64_t)>& read_;
  Scan scan_;
  std::vector<bool> wanted_;  // whose elements are read
  std::mutex mutex_;
};

}  // namespace

Scan scan_values(Trace& trace, const std::atomic<bool>* stop,
                 const std::function<void(std::int64_t bytes)>& read) {
  return Scanner(trace, stop, read).run();
}

}  // namespace assay
