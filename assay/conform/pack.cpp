#include "assay/conform/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/conform/pack_format.h"
#include "assay/conform/store.h"
#include "assay/formats/bytes.h"

namespace assay::conform {
namespace {

class PackFiles : public GoldenFiles {
 public:
  explicit PackFiles(FileBytes file)
      : file_(std::move(file)), entries_(parse_pack_head(file_)) {
    file_.check_intact();
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const PackEntry& entry : entries_) names.push_back(entry.name);
    return names;
  }
  bool has(const std::string& name) const override {
    return find(name) != nullptr;
  }
  FileBytes read(const std::string& name) const override {
    const PackEntry* entry = find(name);
    if (!entry)
      throw Error(Code::kUnreadable,
                  fmt::format("{}: has no {}", file_.name, name));
    FileBytes bytes = file_;
    bytes.bytes = file_.bytes.subspan(entry->begin, entry->bytes);
    bytes.name = fmt::format("{}: {}", file_.name, name);
    verify_object(bytes,
                  {entry->hash, static_cast<std::int64_t>(entry->bytes)});
    return bytes;
  }
  std::filesystem::path path_of(const std::string&) const override {
    return {};
  }

 private:
  const PackEntry* find(const std::string& name) const {
    const auto found =
        std::lower_bound(entries_.begin(), entries_.end(), name,
                         [](const PackEntry& entry, const std::string& wanted) {
                           return entry.name < wanted;
                         });
    return found != entries_.end() && found->name == name ? &*found : nullptr;
  }

  FileBytes file_;
  std::vector<PackEntry> entries_;
};

bool is_case(const std::string& name) { return name.starts_with("cases/"); }

// The names of everything that belongs to the goldens of a store, verified.
std::set<std::string> needed(const GoldenFiles& files) {
  std::set<std::string> names{kStoreFile};
  const auto add = [&](const ObjectRef& ref) {
    const std::string name = object_file(ref.hash);
    if (names.insert(name).second) verify_object(files.read(name), ref);
  };
  for (const std::string& name : files.names()) {
    if (!is_case(name)) continue;
    const FileBytes bytes = files.read(name);
    const Manifest manifest = parse_manifest(as_text(bytes.bytes), bytes.name);
    names.insert(name);
    add(manifest.inputs);
    for (const ObjectRef& ref : manifest.outputs) add(ref);
  }
  return names;
}

PackSummary summary_of(const std::vector<std::string>& names) {
  PackSummary summary;
  for (const std::string& name : names) {
    if (is_case(name)) ++summary.cases;
    if (name.starts_with("objects/")) ++summary.objects;
  }
  return summary;
}

}  // namespace

PackSummary pack(const std::filesystem::path& folder,
                 const std::filesystem::path& file) {
  Goldens{folder};  // refuses what is no store
  const auto files = open_folder(folder);
  const std::set<std::string> names = needed(*files);
  std::vector<PackEntry> entries;
  for (const std::string& name : names) {
    const FileBytes bytes = files->read(name);
    entries.push_back(
        {name, to_hex(hash128(bytes.bytes)), bytes.bytes.size(), 0});
  }
  const std::string head = format_pack_head(entries);
  AtomicFile out(file);
  out.write(head);
  std::uint64_t offset = head.size();
  for (const PackEntry& entry : entries) {
    const FileBytes bytes = files->read(entry.name);
    verify_object(bytes, {entry.hash, static_cast<std::int64_t>(entry.bytes)});
    out.write(std::string(entry.begin - offset, '\0'));
    out.write(as_text(bytes.bytes));
    bytes.check_intact();
    offset = entry.begin + entry.bytes;
  }
  out.commit();
  PackSummary summary = summary_of({names.begin(), names.end()});
  summary.bytes = static_cast<std::int64_t>(offset);
  return summary;
}

PackSummary unpack(const std::filesystem::path& file,
                   const std::filesystem::path& folder) {
  Goldens{file};  // refuses what is no store
  const auto files = open_pack(file);
  for (const std::string& name : files->names()) files->read(name);
  const std::set<std::string> names = needed(*files);
  const GoldenWriter writer(folder);
  PackSummary summary = summary_of({names.begin(), names.end()});
  // Objects before the manifests that name them: "objects/" after "cases/" in
  // the alphabet.
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (*name == kStoreFile) continue;
    const FileBytes bytes = files->read(*name);
    const std::filesystem::path path = folder / *name;
    std::filesystem::create_directories(path.parent_path());
    AtomicFile out(path);
    out.write(as_text(bytes.bytes));
    bytes.check_intact();
    out.commit();
    summary.bytes += static_cast<std::int64_t>(bytes.bytes.size());
  }
  return summary;
}

std::unique_ptr<GoldenFiles> open_pack(FileBytes bytes) {
  return std::make_unique<PackFiles>(std::move(bytes));
}

std::unique_ptr<GoldenFiles> open_pack(const std::filesystem::path& file) {
  return open_pack(FileBytes::of(MappedFile::open(file)));
}

}  // namespace assay::conform
