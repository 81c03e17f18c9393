// Finds the dumps under a path the user named.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/trace/directory.h"
#include "assay/trace/json_reader.h"
#include "assay/trace/plain_files.h"
#include "assay/trace/ptdbg.h"
#include "assay/trace/tensor_files.h"
#include "assay/trace/trace.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxDepth = 16;

// "step12" or "step_12" for the word "step".
std::optional<std::int64_t> numbered(std::string_view name,
                                     std::string_view word) {
  if (!name.starts_with(word)) return std::nullopt;
  name.remove_prefix(word.size());
  if (!name.empty() && name[0] == '_') name.remove_prefix(1);
  std::int64_t number = 0;
  const char* end = name.data() + name.size();
  const auto result = std::from_chars(name.data(), end, number);
  if (name.empty() || result.ptr != end || result.ec != std::errc() ||
      number < 0) {
    return std::nullopt;
  }
  return number;
}

enum class Numbering { kNone, kStep, kRank, kProc };

// What a directory's name says. A bare "rank" is how one process of unknown
// rank was named.
Numbering numbering(std::string_view name, std::int64_t& number) {
  if (name == "rank") {
    number = 0;
    return Numbering::kRank;
  }
  if (const auto step = numbered(name, "step")) {
    number = *step;
    return Numbering::kStep;
  }
  if (const auto rank = numbered(name, "rank")) {
    number = *rank;
    return Numbering::kRank;
  }
  if (const auto pid = numbered(name, "proc")) {
    number = *pid;
    return Numbering::kProc;
  }
  return Numbering::kNone;
}

struct Place {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  bool numbered = false;
};

std::string_view as_text(const MappedFile& file) {
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The files that an index names; none where it is malformed, which its reader
// reports.
EntryNames indexed_shards(const fs::path& index) {
  EntryNames shards;
  try {
    const auto file = MappedFile::open(index);
    JsonReader json(as_text(*file), index.string());
    json.expect(JsonToken::kBeginObject, "an object");
    while (json.next() == JsonToken::kKey) {
      const bool map = json.text() == "weight_map";
      const JsonToken token = json.next();
      if (!map || token != JsonToken::kBeginObject) {
        json.skip(token);
        continue;
      }
      while (json.next() == JsonToken::kKey) {
        const JsonToken shard = json.next();
        if (shard == JsonToken::kString) {
          shards.emplace(json.text());
        } else {
          json.skip(shard);
        }
      }
    }
  } catch (const Error&) {
    return {};
  }
  return shards;
}

class Locator {
 public:
  std::vector<TraceLocation> locations;

  // Collects what is under `path`; returns false when nothing is.
  bool visit(const fs::path& path, const Place& place, int depth) {
    const auto listing = list_directory(path);
    if (is_dump(listing)) {
      add(path, place);
      return true;
    }
    const std::size_t first = locations.size();
    EntryNames covered;
    add_ptdbg(path, listing, place, covered);
    if (depth < kMaxDepth) {
      visit_children(path, listing, place, depth, covered);
    }
    if (covered.empty()) add_index(path, listing, place, covered);
    if (covered.empty()) return false;
    add_uncovered(path, listing, place, covered, first);
    return true;
  }

 private:
  void add(const fs::path& path, const Place& place) {
    locations.push_back({path, place.step, place.rank, place.numbered, {}});
  }

  static bool is_dump(const std::vector<DirectoryEntry>& listing) {
    for (const char* name : {"dump.json", "debug.json", "trace.jsonl"}) {
      const DirectoryEntry* entry = find_entry(listing, name);
      if (entry != nullptr && entry->kind == FileKind::kFile) return true;
    }
    return false;
  }

  // The tensors of a ptdbg dump are in the directory named like its file.
  void add_ptdbg(const fs::path& path,
                 const std::vector<DirectoryEntry>& listing, const Place& place,
                 EntryNames& covered) {
    for (const DirectoryEntry& entry : listing) {
      const fs::path file = path / entry.name;
      if (entry.kind != FileKind::kFile || file.extension() != ".pkl") continue;
      if (!opens_as_ptdbg(file)) continue;
      add(file, place);
      covered.insert(entry.name);
      covered.insert(file.stem().string());
    }
  }

  static bool opens_as_ptdbg(const fs::path& file) {
    try {
      return is_ptdbg_text(file);
    } catch (const Error&) {
      return false;
    }
  }

  // A sharded checkpoint is one trace, however it was cut.
  void add_index(const fs::path& path,
                 const std::vector<DirectoryEntry>& listing, const Place& place,
                 EntryNames& covered) {
    const DirectoryEntry* index = nullptr;
    for (const DirectoryEntry& entry : listing) {
      if (entry.kind != FileKind::kFile) continue;
      if (!entry.name.ends_with(".safetensors.index.json")) continue;
      if (index != nullptr) return;
      index = &entry;
    }
    if (index == nullptr) return;
    add(path / index->name, place);
    covered = indexed_shards(path / index->name);
    covered.insert(index->name);
  }

  void visit_children(const fs::path& path,
                      const std::vector<DirectoryEntry>& listing,
                      const Place& place, int depth, EntryNames& covered) {
    std::int64_t next_rank = first_free_rank(listing);
    for (const DirectoryEntry& entry : listing) {
      if (covered.contains(entry.name)) continue;
      std::int64_t number = 0;
      const Numbering kind = numbering(entry.name, number);
      if (kind == Numbering::kNone) {
        if (visit_other(path, entry, place, depth)) covered.insert(entry.name);
      } else if (entry.kind == FileKind::kDirectory ||
                 entry.kind == FileKind::kLink) {
        Place inner = place;
        inner.numbered = true;
        if (kind == Numbering::kStep) inner.step = number;
        if (kind == Numbering::kRank) inner.rank = number;
        if (kind == Numbering::kProc) inner.rank = next_rank++;
        visit_numbered(path / entry.name, entry.kind, inner, depth);
        covered.insert(entry.name);
      }
    }
  }

  // Tensor files beside dumps are a trace of their own, and so is each
  // directory in which no dump was found. They come last and are numbered like
  // the dumps below `path`, so that those pair as they would without them.
  void add_uncovered(const fs::path& path,
                     const std::vector<DirectoryEntry>& listing,
                     const Place& place, const EntryNames& covered,
                     std::size_t first) {
    Place own = place;
    own.numbered = std::all_of(
        locations.begin() + static_cast<std::ptrdiff_t>(first), locations.end(),
        [](const TraceLocation& location) { return location.numbered; });
    std::vector<std::string> loose;
    for (const DirectoryEntry& entry : listing) {
      if (covered.contains(entry.name)) continue;
      const EntryRole role = judge_entry(path, entry).role;
      if (role == EntryRole::kTensorFile || role == EntryRole::kUnread) {
        loose.push_back(entry.name);
      } else if (role == EntryRole::kDirectory && holds(path / entry.name)) {
        if (const auto rank = numbered(entry.name, "")) {
          add(path / entry.name, {own.step, *rank, own.numbered});
        } else {
          add(path / entry.name, own);
        }
      }
    }
    if (loose.empty()) return;
    add(path, own);
    locations.back().only = std::move(loose);
  }

  static bool holds(const fs::path& directory) {
    try {
      return !list_tensor_entries(directory).empty();
    } catch (const Error&) {
      return true;
    }
  }

  // Process ids differ between two runs: processes pair by position.
  static std::int64_t first_free_rank(
      const std::vector<DirectoryEntry>& listing) {
    std::int64_t next = 0;
    for (const DirectoryEntry& entry : listing) {
      std::int64_t number = 0;
      if (numbering(entry.name, number) == Numbering::kRank) {
        next = std::max(next, number + 1);
      }
    }
    return next;
  }

  // Nothing is found in a directory that cannot be listed: whoever reads it
  // says so.
  bool try_visit(const fs::path& path, const Place& place, int depth) {
    try {
      return visit(path, place, depth);
    } catch (const Error&) {
      return false;
    }
  }

  // A step or rank that holds nothing is a finding of its own: it is located,
  // and reading it says what is wrong.
  void visit_numbered(const fs::path& path, FileKind kind, const Place& place,
                      int depth) {
    if (kind == FileKind::kLink || !try_visit(path, place, depth + 1)) {
      add(path, place);
    }
  }

  // Directories of other names hold whole runs (ptdbg_dump_v5.0, graph/), or
  // a rank where the old tool named it by its number alone.
  bool visit_other(const fs::path& path, const DirectoryEntry& entry,
                   const Place& place, int depth) {
    if (entry.kind != FileKind::kDirectory || entry.name[0] == '.') {
      return false;
    }
    Place inner = place;
    if (const auto rank = numbered(entry.name, "")) {
      inner.rank = *rank;
      inner.numbered = true;
    }
    return try_visit(path / entry.name, inner, depth + 1);
  }
};

bool earlier(const TraceLocation& a, const TraceLocation& b) {
  return std::pair(a.step, a.rank) < std::pair(b.step, b.rank);
}

}  // namespace

std::vector<TraceLocation> locate_traces(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw Error(Code::kUnreadable,
                path.string() + ": no such file or directory");
  }
  if (!fs::is_directory(status)) return {{path, 0, 0, false, {}}};
  Place place;
  std::int64_t number = 0;
  const std::string own_name =
      fs::absolute(path).lexically_normal().filename().string();
  if (numbering(own_name, number) == Numbering::kStep) place.step = number;
  if (numbering(own_name, number) == Numbering::kRank) place.rank = number;
  Locator locator;
  if (!locator.visit(path, place, 0))
    return {{path, place.step, place.rank, false, {}}};
  std::stable_sort(locator.locations.begin(), locator.locations.end(), earlier);
  return std::move(locator.locations);
}

}  // namespace assay
