// `assay inspect`: what a dump or a tensor file holds.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/base/text.h"
#include "assay/cli/commands.h"
#include "assay/cli/element_text.h"
#include "assay/cli/read_flags.h"
#include "assay/metrics/error_stats.h"
#include "assay/metrics/verdict.h"
#include "assay/trace/trace.h"

namespace assay {
namespace {

constexpr std::int64_t kShownValues = 8;
constexpr std::size_t kShownRecords = 40;

std::string dtype_of(const SideFacts& facts) {
  if (facts.dtype) return std::string(traits(*facts.dtype).name);
  return facts.dtype_text.empty() ? "?" : printable(facts.dtype_text);
}

std::string figure(const std::optional<double>& value) {
  return value ? format_figure(*value) : "-";
}

std::string statistics_text(const TensorStatistics& s) {
  return fmt::format("max {}  min {}  mean {}  norm {}", figure(s.max),
                     figure(s.min), figure(s.mean), figure(s.norm));
}

bool has_any(const TensorStatistics& s) {
  return s.max || s.min || s.mean || s.norm;
}

void print_values(const TensorView& view) {
  const std::int64_t count = std::min(kShownValues, view.numel());
  fmt::print("  values   ");
  for (std::int64_t i = 0; i < count; ++i) {
    fmt::print("{}{}", i ? ", " : "", element_text(view, i));
  }
  fmt::print("{}\n", view.numel() > count ? ", ..." : "");
}

void print_measured(const TensorView& view) {
  if (view.numel() == 0) {
    fmt::print("  values   none (empty)\n");
    return;
  }
  const ErrorStats stats = compute_stats(view, view);
  const SideStats& s = stats.golden;
  fmt::print("  measured max {}  min {}  mean {}  norm {}\n",
             format_figure(s.max), format_figure(s.min), format_figure(s.mean),
             format_figure(s.l2));
  if (s.nan + s.pos_inf + s.neg_inf > 0) {
    fmt::print("  special  {} NaN, {} +inf, {} -inf of {}\n",
               human_count(s.nan), human_count(s.pos_inf),
               human_count(s.neg_inf), human_count(stats.count));
  }
  print_values(view);
}

// `where`: which step and rank, "" when there is only one.
void print_record(const Trace& trace, const Record& record,
                  const std::string& where) {
  fmt::print("{}{}\n", printable(trace.name(record)), where);
  if (!record.is_tensor) {
    fmt::print("  value    {} ({})\n", printable(record.value),
               printable(record.type));
    return;
  }
  fmt::print(
      "  tensor   {} {}{}\n", dtype_of(record.facts),
      to_string(record.facts.shape),
      record.facts.requires_grad.value_or(false) ? "  requires_grad" : "");
  if (has_any(record.stats)) {
    fmt::print("  dumped   {}\n", statistics_text(record.stats));
  }
  if (!record.digest.empty()) {
    fmt::print("  digest   {}\n", printable(record.digest));
  }
  if (!record.unreadable.empty()) {
    fmt::print("  file     {}\n", printable(record.unreadable));
  }
  if (record.file.empty() || !record.unreadable.empty() || !trace.loader) {
    return;
  }
  fmt::print("  file     {}\n", printable(record.file));
  try {
    const Tensor tensor = trace.loader->load(record);
    print_measured(tensor.view);
    if (tensor.view.is_contiguous()) {
      fmt::print("  xxh128   {}\n", to_hex(hash128(tensor.view.bytes())));
    }
  } catch (const Error& error) {
    fmt::print("  file     {}\n", error.what());
  }
}

void print_listing(const Trace& trace, bool all) {
  const std::size_t count = all ? trace.records.size()
                                : std::min(kShownRecords, trace.records.size());
  std::size_t width = 0;
  for (std::size_t i = 0; i < count; ++i) {
    width = std::max(width, printable(trace.name(trace.records[i])).size());
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Record& record = trace.records[i];
    const std::string name = printable(trace.name(record));
    if (!record.is_tensor) {
      fmt::print("  {:<{}}  {}\n", name, width, printable(record.value));
      continue;
    }
    fmt::print("  {:<{}}  {} {}\n", name, width, dtype_of(record.facts),
               to_string(record.facts.shape));
  }
  if (count < trace.records.size()) {
    fmt::print(
        "  ... {} more (--all)\n",
        human_count(static_cast<std::int64_t>(trace.records.size() - count)));
  }
}

void print_summary(const Trace& trace) {
  std::map<std::string, std::int64_t> dtypes;
  std::int64_t tensors = 0, kept = 0;
  for (const Record& record : trace.records) {
    if (!record.is_tensor) continue;
    ++tensors;
    kept += !record.file.empty();
    ++dtypes[dtype_of(record.facts)];
  }
  fmt::print("{}: step {}, rank {}{}{}\n", printable(trace.path.string()),
             trace.step, trace.rank,
             trace.framework.empty() ? "" : ", " + printable(trace.framework),
             trace.task.empty()
                 ? ""
                 : ", " + printable(trace.task) + " " + printable(trace.level));
  fmt::print("  {} operators, {} records, {} tensors ({} with data)",
             human_count(static_cast<std::int64_t>(trace.ops.size())),
             human_count(static_cast<std::int64_t>(trace.records.size())),
             human_count(tensors), human_count(kept));
  for (const auto& [name, count] : dtypes) {
    fmt::print(", {} {}", human_count(count), name);
  }
  fmt::print("\n");
  for (const std::string& warning : trace.warnings) {
    fmt::print("  warning: {}\n", warning);
  }
}

class InspectCommand : public Command {
 public:
  std::string name() const override { return "inspect"; }
  std::string summary() const override {
    return "show what a dump or tensor file holds";
  }
  std::string examples() const override {
    return "  assay inspect gpu_dump\n"
           "  assay inspect gpu_dump '*.layers.3.mlp.*'\n"
           "  assay inspect weights.safetensors --all\n";
  }
  void declare(Args& args) override {
    args.positional("TRACE", "a dump directory or a tensor file", &path_);
    args.optional_positional("NAME", "glob on record or operator names",
                             &name_);
    args.flag("-a,--all", "list every record", &all_);
    read_.declare(args);
  }

  int run() override {
    std::int64_t found = 0;
    const std::vector<TraceLocation> locations = locate_traces(path_);
    for (const TraceLocation& location : locations) {
      const Trace trace = read_trace(location, read_.options());
      const std::string where =
          locations.size() < 2
              ? ""
              : fmt::format("  (step {}, rank {})", trace.step, trace.rank);
      if (name_.empty()) {
        print_summary(trace);
        print_listing(trace, all_);
        found += static_cast<std::int64_t>(trace.records.size());
        continue;
      }
      for (const Record& record : trace.records) {
        if (!glob_match(name_, trace.name(record)) &&
            !glob_match(name_, trace.ops[record.op].name)) {
          continue;
        }
        print_record(trace, record, where);
        ++found;
      }
    }
    if (found == 0 && !name_.empty()) {
      throw Error(Code::kUsage, "no record or operator of " + printable(path_) +
                                    " matches '" + printable(name_) + "'");
    }
    return kExitMatch;
  }

 private:
  std::string path_, name_;
  bool all_ = false;
  ReadFlags read_;
};

}  // namespace

std::unique_ptr<Command> make_inspect_command() {
  return std::make_unique<InspectCommand>();
}

}  // namespace assay
