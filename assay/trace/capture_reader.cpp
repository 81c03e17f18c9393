#include "assay/trace/capture_reader.h"

#include <map>
#include <mutex>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"
#include "assay/trace/capture_names.h"
#include "assay/trace/capture_shard.h"
#include "assay/trace/json_line.h"
#include "assay/trace/msprobe.h"
#include "assay/trace/recompute.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

// Where a tensor is, by Record::entry.
struct Place {
  std::int64_t shard = 0, at = 0;
};

class CaptureLoader : public TensorLoader {
 public:
  CaptureLoader(fs::path directory, std::vector<Place> places)
      : directory_(std::move(directory)), places_(std::move(places)) {}

  Tensor load(const Record& record) const override {
    if (!record.unreadable.empty())
      throw Error(Code::kUnreadable, record.unreadable);
    if (record.file.empty())
      throw Error(Code::kUnreadable,
                  record.leaf + ": the trace kept no tensor");
    const Place& place = places_.at(record.entry);
    const auto file = shard(place.shard);
    const DType dtype = record.facts.dtype.value();
    const auto count = checked_numel(record.facts.shape);
    const auto bytes = count ? storage_bytes(dtype, *count) : std::nullopt;
    const auto size = static_cast<std::int64_t>(file->size());
    if (!bytes || place.at < kShardHeaderBytes || place.at > size ||
        *bytes > size - place.at)
      throw Error(Code::kRefused, file->path().string() + ": " + record.leaf +
                                      " at byte " + std::to_string(place.at) +
                                      ", but the file has " +
                                      std::to_string(size));
    Tensor tensor;
    tensor.view.dtype = dtype;
    tensor.view.shape = record.facts.shape;
    tensor.view.data = file->bytes().data() + place.at;
    tensor.owner = file;
    return tensor;
  }

 private:
  std::shared_ptr<const MappedFile> shard(std::int64_t number) const {
    std::lock_guard lock(mutex_);
    auto& file = shards_[number];
    if (!file) {
      const fs::path path = directory_ / shard_name(number);
      if (fs::is_symlink(path))
        throw Error(Code::kRefused, path.string() + ": a symbolic link");
      file = MappedFile::open(path);
    }
    return file;
  }

  const fs::path directory_;
  const std::vector<Place> places_;
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, std::shared_ptr<const MappedFile>> shards_;
};

// One line, member by member; what a line lacks keeps its default.
class CaptureReader {
 public:
  CaptureReader(const fs::path& directory, Trace& trace)
      : directory_(directory),
        path_((directory / kCaptureFile).string()),
        trace_(trace) {}

  void read() {
    const auto file = MappedFile::open(path_);
    const auto bytes = file->bytes();
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()),
                          bytes.size());
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      ++line_;
      if (end == rest.npos) {
        warn("ends in the middle of line " + std::to_string(line_) +
             ": the run was stopped there");
        break;
      }
      read_line(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    file->check_intact();
    if (line_ == 0 || !header_seen_) refuse("no header in the first line");
    if (!ended_) add_missing_end();
    trace_.loader =
        std::make_shared<CaptureLoader>(directory_, std::move(places_));
  }

  // Records of an operator come together, as Trace wants them: a parent's
  // results follow its children's in the file.
  void group() {
    std::vector<Record> grouped;
    grouped.reserve(trace_.records.size());
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      Op& op = trace_.ops[i];
      op.first_record = static_cast<std::uint32_t>(grouped.size());
      op.record_count = static_cast<std::uint32_t>(of_[i].size());
      for (const std::uint32_t r : of_[i])
        grouped.push_back(std::move(trace_.records[r]));
    }
    trace_.records = std::move(grouped);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Code::kRefused,
                path_ + ":" + std::to_string(line_) + ": " + what);
  }
  // Two runs that were stopped at the same place agree in what they have, but
  // not in all of the step: a row that never matches stands for the rest.
  void add_missing_end() {
    const std::string why =
        "has no end: the run was stopped before the step was over, after " +
        std::to_string(trace_.records.size()) + " records";
    warn(why);
    Op op;
    op.name = "the rest of the step";
    Record rest;
    rest.op = static_cast<std::uint32_t>(trace_.ops.size());
    rest.is_tensor = true;
    rest.role = Role::kTensor;
    rest.leaf = "tensor";
    rest.unreadable = std::string(kCaptureFile) + " " + why;
    of_.push_back({static_cast<std::uint32_t>(trace_.records.size())});
    trace_.ops.push_back(std::move(op));
    trace_.records.push_back(std::move(rest));
  }
  void warn(const std::string& what) {
    trace_.warnings.push_back(path_ + " " + what);
  }

  void read_line(std::string_view text) {
    JsonLine json(text, path_ + ":" + std::to_string(line_));
    const std::string first = json.first_key();
    if (!header_seen_) {
      if (first != "assay_trace") refuse("expected a header, \"assay_trace\"");
      header(json);
    } else if (first == "stack") {
      trace_.stacks.push_back(json.texts());
      json.members([&](std::string_view) { json.skip(); });
    } else if (first == "op") {
      op(json);
    } else if (first == "of") {
      record(json);
    } else if (first == "end") {
      ended_ = true;
      json.skip();
      json.members([&](std::string_view) { json.skip(); });
    } else {
      refuse("unknown line \"" + printable(first) + "\"");
    }
  }

  void header(JsonLine& json) {
    const std::int64_t version = json.integer();
    if (version != kCaptureVersion)
      refuse("version " + std::to_string(version) + ", expected " +
             std::to_string(kCaptureVersion));
    header_seen_ = true;
    json.members([&](std::string_view key) {
      if (key == "task") return set(json, trace_.task);
      if (key == "framework") return set(json, trace_.framework);
      if (key == "level") return set(json, trace_.level);
      json.skip();
    });
  }

  void op(JsonLine& json) {
    Op op;
    op.name = json.text();
    op.first_record = static_cast<std::uint32_t>(trace_.records.size());
    json.members([&](std::string_view key) {
      if (key == "api") return set(json, op.api);
      if (key == "prefix") return set(json, op.prefix);
      if (key == "autocast") return set(json, op.autocast);
      if (key == "call") {
        op.call_index = json.integer();
      } else if (key == "direction") {
        op.direction = word<Direction>(json, kDirectionWords);
      } else if (key == "parent") {
        op.parent = number_below(json, trace_.ops.size(), "parent");
      } else if (key == "stack") {
        op.stack = number_below(json, trace_.stacks.size(), "stack");
      } else if (key == "recompute") {
        op.recompute = json.boolean();
      } else if (key == "collective") {
        collective(json, op);
      } else {
        json.skip();
      }
    });
    if (op.name.empty()) refuse("op: expected a name");
    trace_.ops.push_back(std::move(op));
    of_.emplace_back();
  }

  void collective(JsonLine& json, Op& op) {
    op.collective = std::make_unique<Collective>();
    json.open_object();
    json.members([&](std::string_view key) {
      if (key == "group") return set(json, op.collective->group_id);
      if (key == "ranks") {
        op.collective->group_ranks = json.integers();
      } else if (key == "peer") {
        op.collective->peer = json.integer();
      } else {
        json.skip();
      }
    });
  }

  void record(JsonLine& json) {
    Record r;
    r.op =
        static_cast<std::uint32_t>(number_below(json, trace_.ops.size(), "of"));
    r.is_tensor = false;
    std::optional<Place> place;
    std::string counts;  // of what is not finite, as JSON
    json.members([&](std::string_view key) {
      if (key == "role") {
        r.role = word<Role>(json, kRoleWords);
      } else if (key == "leaf") {
        set(json, r.leaf);
      } else if (key == "type") {
        set(json, r.type);
      } else if (key == "value") {
        set(json, r.value);
      } else if (key == "unreadable") {
        r.is_tensor = true;
        set(json, r.unreadable);
      } else if (key == "opaque") {
        set(json, r.unreadable);
      } else if (key == "dtype") {
        r.is_tensor = true;
        set(json, r.facts.dtype_text);
        r.facts.dtype = parse_dtype(r.facts.dtype_text);
      } else if (key == "shape") {
        r.facts.shape = json.integers();
      } else if (key == "requires_grad") {
        r.facts.requires_grad = json.boolean();
      } else if (key == "hash") {
        set(json, r.digest);
      } else if (key == "shard") {
        if (!place) place.emplace();
        place->shard = json.integer();
      } else if (key == "at") {
        if (!place) place.emplace();
        place->at = json.integer();
      } else if (key == "zeros") {
        r.zeros = count(json, key);
      } else if (key == "saturated") {
        r.saturated = count(json, key);
      } else if (double* figure = statistic(r, key)) {
        *figure = json.number();
      } else if (key == "nan" || key == "inf" || key == "-inf") {
        counts += counts.empty() ? "{\"" : ",\"";
        counts.append(key).append("\":").append(std::to_string(json.integer()));
      } else {
        json.skip();
      }
    });
    if (r.is_tensor && !r.facts.requires_grad) r.facts.requires_grad = false;
    if (!counts.empty()) r.value = counts + "}";
    if (r.is_tensor && r.unreadable.empty() && !checked_numel(r.facts.shape))
      r.unreadable = "shape " + to_string(r.facts.shape) + " has no size";
    if (place) locate(*place, r);
    of_[r.op].push_back(static_cast<std::uint32_t>(trace_.records.size()));
    trace_.records.push_back(std::move(r));
  }

  void locate(const Place& place, Record& r) {
    if (place.shard < 0 || place.shard > 1'000'000) refuse("shard: no number");
    if (!r.facts.dtype && r.unreadable.empty())
      r.unreadable = "dtype " + printable(r.facts.dtype_text) + " is unknown";
    r.file = shard_name(place.shard);
    r.entry = static_cast<std::uint32_t>(places_.size());
    places_.push_back(place);
  }

  std::int64_t count(JsonLine& json, std::string_view key) const {
    const std::int64_t value = json.integer();
    if (value < 0)
      refuse(std::string(key) + ": " + std::to_string(value) +
             ", expected a count");
    return value;
  }

  static double* statistic(Record& r, std::string_view key) {
    auto& s = r.stats;
    std::optional<double>* figure = key == "max"    ? &s.max
                                    : key == "min"  ? &s.min
                                    : key == "mean" ? &s.mean
                                    : key == "norm" ? &s.norm
                                                    : nullptr;
    return figure ? &figure->emplace() : nullptr;
  }

  std::int32_t number_below(JsonLine& json, std::size_t end, const char* what) {
    const std::int64_t value = json.integer();
    if (value < 0 || value >= static_cast<std::int64_t>(end))
      refuse(std::string(what) + ": " + std::to_string(value) +
             " is none of the " + std::to_string(end) + " before it");
    return static_cast<std::int32_t>(value);
  }
  static void set(JsonLine& json, std::string& out) { out = json.text(); }
  template <typename Enum, std::size_t n>
  static Enum word(JsonLine& json,
                   const std::array<std::string_view, n>& words) {
    const std::string found = json.text();
    const auto value = value_of<Enum>(words, found);
    if (!value) json.refuse("unknown word \"" + printable(found) + "\"");
    return *value;
  }

  const fs::path directory_;
  const std::string path_;
  Trace& trace_;
  std::int64_t line_ = 0;
  bool header_seen_ = false, ended_ = false;
  std::vector<Place> places_;
  std::vector<std::vector<std::uint32_t>> of_;  // records of each op
};

}  // namespace

bool is_capture(const fs::path& directory) {
  std::error_code ignored;
  return fs::is_regular_file(directory / kCaptureFile, ignored) &&
         !fs::is_symlink(directory / kCaptureFile, ignored);
}

void read_capture(const fs::path& directory, Trace& trace) {
  CaptureReader reader(directory, trace);
  reader.read();
  reader.group();
  normalize_recompute(trace);
  rename_duplicates(trace);
}

}  // namespace assay
