// Finds the dumps under a path the user named.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "assay/base/error.h"
#include "assay/trace/directory.h"
#include "assay/trace/plain_files.h"
#include "assay/trace/ptdbg.h"
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
    bool found = add_ptdbg(path, listing, place);
    if (depth < kMaxDepth) found |= visit_children(path, listing, place, depth);
    return found || add_index(path, listing, place);
  }

 private:
  void add(const fs::path& path, const Place& place) {
    locations.push_back({path, place.step, place.rank, place.numbered});
  }

  static bool is_dump(const std::vector<DirectoryEntry>& listing) {
    for (const char* name : {"dump.json", "debug.json"}) {
      const DirectoryEntry* entry = find_entry(listing, name);
      if (entry != nullptr && entry->kind == FileKind::kFile) return true;
    }
    return false;
  }

  bool add_ptdbg(const fs::path& path,
                 const std::vector<DirectoryEntry>& listing,
                 const Place& place) {
    bool found = false;
    for (const DirectoryEntry& entry : listing) {
      const fs::path file = path / entry.name;
      if (entry.kind != FileKind::kFile || file.extension() != ".pkl") continue;
      if (!is_ptdbg_text(file)) continue;
      add(file, place);
      found = true;
    }
    return found;
  }

  // A sharded checkpoint is one trace, however it was cut.
  bool add_index(const fs::path& path,
                 const std::vector<DirectoryEntry>& listing,
                 const Place& place) {
    const DirectoryEntry* index = nullptr;
    for (const DirectoryEntry& entry : listing) {
      if (entry.kind != FileKind::kFile) continue;
      if (!entry.name.ends_with(".safetensors.index.json")) continue;
      if (index != nullptr) return false;
      index = &entry;
    }
    if (index != nullptr) add(path / index->name, place);
    return index != nullptr;
  }

  bool visit_children(const fs::path& path,
                      const std::vector<DirectoryEntry>& listing,
                      const Place& place, int depth) {
    bool found = false;
    std::int64_t next_rank = first_free_rank(listing);
    for (const DirectoryEntry& entry : listing) {
      std::int64_t number = 0;
      const Numbering kind = numbering(entry.name, number);
      if (kind == Numbering::kNone) {
        found |= visit_other(path, entry, place, depth);
      } else if (entry.kind == FileKind::kDirectory ||
                 entry.kind == FileKind::kLink) {
        Place inner = place;
        inner.numbered = true;
        if (kind == Numbering::kStep) inner.step = number;
        if (kind == Numbering::kRank) inner.rank = number;
        if (kind == Numbering::kProc) inner.rank = next_rank++;
        visit_numbered(path / entry.name, entry.kind, inner, depth);
        found = true;
      }
    }
    return found;
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
  if (!fs::is_directory(status)) return {{path, 0, 0, false}};
  Place place;
  std::int64_t number = 0;
  const std::string own_name =
      fs::absolute(path).lexically_normal().filename().string();
  if (numbering(own_name, number) == Numbering::kStep) place.step = number;
  if (numbering(own_name, number) == Numbering::kRank) place.rank = number;
  Locator locator;
  if (!locator.visit(path, place, 0))
    return {{path, place.step, place.rank, false}};
  std::stable_sort(locator.locations.begin(), locator.locations.end(), earlier);
  return std::move(locator.locations);
}

}  // namespace assay
