#include "assay/conform/store.h"

#include <fmt/format.h>

#include <utility>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/base/text.h"
#include "assay/conform/pack.h"
#include "assay/conform/report/run_fields.h"
#include "assay/conform/tensor_file.h"
#include "assay/formats/bytes.h"

namespace assay::conform {
namespace {

constexpr std::string_view kStoreText =
    R"({"assay": "golden store", "version": 1})"
    "\n";

void check_store_file(const FileBytes& bytes) {
  const Value document = parse_json(as_text(bytes.bytes), bytes.name);
  const RunFields fields(document, bytes.name);
  if (fields.text("assay") != "golden store")
    fields.wrong("assay", "expected a golden store");
  if (fields.integer("version", 0, INT32_MAX) != 1)
    fields.wrong("version", "expected 1; a newer assay wrote this");
}

std::unique_ptr<GoldenFiles> open_files(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    throw Error(Code::kUnreadable,
                fmt::format("{}: no golden store is there", path.string()));
  return std::filesystem::is_directory(path, ignored) ? open_folder(path)
                                                      : open_pack(path);
}

void make_folders(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(Code::kUnreadable,
                fmt::format("{}: cannot be made: {}", folder.string(),
                            error.message()));
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  make_folders(path.parent_path());
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

// Two that make one store at once see each other's first files.
void refuse_other_things(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "cases" || name == "objects" || name == "logs" ||
        name.starts_with(kStoreFile) || name.starts_with("scratch-"))
      continue;
    throw Error(Code::kRefused, fmt::format("{}: no golden store: it holds {}",
                                            folder.string(), printable(name)));
  }
}

bool is_intact(const std::filesystem::path& path, const ObjectRef& ref) {
  try {
    verify_object(FileBytes::of(MappedFile::open(path)), ref);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void verify_object(const FileBytes& bytes, const ObjectRef& ref) {
  const auto size = static_cast<std::int64_t>(bytes.bytes.size());
  if (size != ref.bytes)
    throw Error(Code::kRefused,
                fmt::format("{}: {} bytes, its manifest says {}", bytes.name,
                            size, ref.bytes));
  const std::string found = to_hex(hash128(bytes.bytes));
  bytes.check_intact();
  if (found != ref.hash)
    throw Error(Code::kRefused,
                fmt::format("{}: its bytes hash to {}: the object was changed",
                            bytes.name, found));
}

Goldens::Goldens(const std::filesystem::path& path)
    : path_(path), files_(open_files(path)) {
  if (!files_->has(kStoreFile))
    throw Error(Code::kRefused, fmt::format("{}: no golden store: it has no {}",
                                            path.string(), kStoreFile));
  check_store_file(files_->read(kStoreFile));
}

std::optional<Manifest> Goldens::find(const Case& c) const {
  const std::string name = case_file(c.module, c.id);
  if (!files_->has(name)) return std::nullopt;
  const FileBytes bytes = files_->read(name);
  Manifest manifest = parse_manifest(as_text(bytes.bytes), bytes.name);
  bytes.check_intact();
  return manifest;
}

FileBytes Goldens::object(const ObjectRef& ref) const {
  FileBytes bytes = files_->read(object_file(ref.hash));
  verify_object(bytes, ref);
  return bytes;
}

Outcome Goldens::outcome(const Manifest& manifest) const {
  Outcome outcome;
  outcome.status = manifest.status;
  outcome.error = manifest.error;
  outcome.message = manifest.message;
  outcome.contract = manifest.contract;
  outcome.repeats = manifest.repeats;
  for (const ObjectRef& ref : manifest.outputs)
    outcome.outputs.push_back(read_tensors(object(ref)));
  return outcome;
}

std::filesystem::path Goldens::inputs(
    const Manifest& manifest, const std::filesystem::path& scratch) const {
  const FileBytes bytes = object(manifest.inputs);
  std::filesystem::path path =
      files_->path_of(object_file(manifest.inputs.hash));
  if (!path.empty()) return std::filesystem::absolute(path);
  path = scratch / (manifest.inputs.hash + ".safetensors");
  write_file(path, as_text(bytes.bytes));
  return path;
}

bool Goldens::complete(const Manifest& manifest) const {
  try {
    object(manifest.inputs);
    for (const ObjectRef& ref : manifest.outputs) object(ref);
    return true;
  } catch (const Error&) {
    return false;
  }
}

GoldenWriter::GoldenWriter(std::filesystem::path folder)
    : folder_(std::move(folder)) {
  make_folders(folder_);
  const std::filesystem::path file = folder_ / kStoreFile;
  if (std::filesystem::exists(file)) {
    check_store_file(FileBytes::of(MappedFile::open(file)));
    return;
  }
  refuse_other_things(folder_);
  write_file(file, kStoreText);
}

std::filesystem::path GoldenWriter::object_path(const ObjectRef& ref) const {
  return std::filesystem::absolute(folder_ / object_file(ref.hash));
}

ObjectRef GoldenWriter::put_object(const std::filesystem::path& file) {
  const FileBytes bytes = FileBytes::of(MappedFile::open(file));
  ObjectRef ref;
  ref.hash = to_hex(hash128(bytes.bytes));
  ref.bytes = static_cast<std::int64_t>(bytes.bytes.size());
  const std::filesystem::path path = object_path(ref);
  if (is_intact(path, ref)) return ref;
  write_file(path, as_text(bytes.bytes));
  bytes.check_intact();
  return ref;
}

void GoldenWriter::put(const Manifest& manifest) {
  const Case& c = manifest.subject;
  write_file(folder_ / case_file(c.module, c.id), format_manifest(manifest));
}

}  // namespace assay::conform
