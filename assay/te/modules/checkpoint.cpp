#include "assay/te/modules/checkpoint.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "assay/base/hash.h"
#include "assay/base/mapped_file.h"
#include "assay/base/parallel.h"
#include "assay/base/text.h"
#include "assay/formats/safetensors.h"
#include "assay/formats/safetensors_header.h"
#include "assay/formats/safetensors_writer.h"
#include "assay/te/check.h"

namespace assay::te {
namespace {

constexpr std::string_view kOwn = "assay.";
constexpr const char* kVersionKey = "assay.checkpoint";
constexpr const char* kVersion = "1";
constexpr const char* kMetadataHash = "assay.metadata";
constexpr std::string_view kTensorHash = "assay.hash.";

std::string hash_key(const std::string& name) {
  return std::string(kTensorHash) + name;
}

std::string hash_of(const std::string& name, const TensorView& tensor) {
  std::string facts = name;
  facts.append("\n").append(traits(tensor.dtype).name);
  facts.append("\n").append(to_string(tensor.shape));
  facts.append("\n").append(to_hex(hash128(tensor.bytes())));
  return to_hex(hash128(facts));
}

// Of all entries but its own.
std::string hash_of(const CheckpointMetadata& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    if (key == kMetadataHash) continue;
    for (const std::string* part : {&key, &value})
      text.append(std::to_string(part->size())).append(":").append(*part);
  }
  return to_hex(hash128(text));
}

[[noreturn]] void refuse(const std::filesystem::path& path,
                         const std::string& what) {
  throw Error(Code::kRefused, path.string() + ": " + what);
}

std::string quoted(const std::string& name) {
  return "tensor \"" + printable(name) + "\"";
}

void check_metadata(const std::filesystem::path& path,
                    const CheckpointMetadata& metadata) {
  const auto version = metadata.find(kVersionKey);
  if (version == metadata.end())
    refuse(path, "no \"assay.checkpoint\" in the metadata: no checkpoint");
  if (version->second != kVersion)
    refuse(path, "checkpoint version \"" + printable(version->second) +
                     "\", expected " + kVersion);
  const auto hash = metadata.find(kMetadataHash);
  if (hash == metadata.end() || hash->second != hash_of(metadata))
    refuse(path, "the metadata is corrupt: its hash is another one");
}

// A copy in memory of its own, which nobody changes between check and use.
Tensor own_copy(const Tensor& from) {
  Tensor out = Tensor::empty(from.dtype(), from.shape());
  const auto bytes = from.view.bytes();
  if (!bytes.empty())
    std::memcpy(out.mutable_data(), bytes.data(), bytes.size());
  return out;
}

void check_hash(const std::filesystem::path& path, const std::string& name,
                const std::string& found, const CheckpointMetadata& metadata) {
  const auto hash = metadata.find(hash_key(name));
  if (hash == metadata.end())
    refuse(path, quoted(name) + ": no hash in the metadata");
  if (found != hash->second)
    refuse(path, quoted(name) + ": corrupt: content hash " + found +
                     ", expected " + printable(hash->second));
}

// Hashes of tensors that the file does not hold.
void check_all_there(const std::filesystem::path& path,
                     const Checkpoint& checkpoint) {
  std::set<std::string> names;
  for (const NamedTensor& t : checkpoint.tensors)
    names.insert(hash_key(t.name));
  for (const auto& [key, value] : checkpoint.metadata)
    if (key.starts_with(kTensorHash) && !names.contains(key))
      refuse(path, quoted(key.substr(kTensorHash.size())) +
                       ": missing from the file");
}

std::string fixed(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%020llu",
                static_cast<unsigned long long>(value));
  return text;
}

// The number that `text` is as a whole.
template <typename T>
T number(const std::string& key, std::string_view text) {
  T value{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(),
          "training_state", key, "\"" + printable(std::string(text)) + "\"",
          "a number");
  return value;
}

constexpr std::string_view kRandom = "random.";

}  // namespace

void save_checkpoint(const std::filesystem::path& path,
                     std::span<const NamedTensor> tensors,
                     const CheckpointMetadata& metadata) {
  constexpr std::string_view kOp = "save_checkpoint";
  CheckpointMetadata all = metadata;
  for (const auto& [key, value] : metadata)
    require(!key.starts_with(kOwn), kOp, "metadata", "\"" + key + "\"",
            "a key without \"assay.\"");
  std::vector<TensorInfo> infos;
  std::vector<Tensor> rows;
  for (const NamedTensor& t : tensors) {
    require_present(kOp, t.name, t.tensor);
    infos.push_back({t.name, t.tensor.dtype(), t.tensor.shape(), ""});
    rows.push_back(contiguous(t.tensor));
  }
  std::vector<std::string> hashes(rows.size());
  parallel_for(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i) {
    const auto k = static_cast<std::size_t>(i);
    hashes[k] = hash_of(infos[k].name, rows[k].view);
  });
  for (std::size_t i = 0; i < rows.size(); ++i)
    all[hash_key(infos[i].name)] = hashes[i];
  all[kVersionKey] = kVersion;
  all[kMetadataHash] = hash_of(all);
  SafetensorsWriter writer(path, std::move(infos), all);
  for (const Tensor& row : rows) writer.write(row.view);
  writer.commit();
}

Checkpoint load_checkpoint(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  Checkpoint out;
  out.metadata =
      parse_safetensors_header(file->bytes(), path.string()).metadata;
  check_metadata(path, out.metadata);
  const auto source = open_safetensors(FileBytes::of(file));
  const auto& infos = source->tensors();
  out.tensors.resize(infos.size());
  std::vector<std::string> hashes(infos.size());
  parallel_for(static_cast<std::int64_t>(infos.size()), [&](std::int64_t i) {
    const auto k = static_cast<std::size_t>(i);
    out.tensors[k] = {infos[k].name, own_copy(source->load(k))};
    hashes[k] = hash_of(infos[k].name, out.tensors[k].tensor.view);
  });
  for (std::size_t i = 0; i < infos.size(); ++i)
    check_hash(path, infos[i].name, hashes[i], out.metadata);
  check_all_there(path, out);
  std::erase_if(out.metadata, [](const auto& entry) {
    return entry.first.starts_with(kOwn);
  });
  return out;
}

void restore(const Checkpoint& checkpoint, std::span<NamedTensor> targets) {
  constexpr std::string_view kOp = "restore";
  std::map<std::string, const Tensor*> given;
  for (const NamedTensor& t : checkpoint.tensors)
    require(given.emplace(t.name, &t.tensor).second, kOp, t.name, "twice",
            "one tensor of a name");
  std::vector<std::pair<Tensor*, const Tensor*>> copies;
  for (NamedTensor& to : targets) {
    const auto found = given.find(to.name);
    require(found != given.end(), kOp, to.name, "missing",
            "a tensor of the checkpoint, once");
    require_dtype(kOp, to.name, *found->second, {to.tensor.dtype()});
    require_shape(kOp, to.name, *found->second, to.tensor.shape());
    require_writable(kOp, to.name, to.tensor);
    require_contiguous(kOp, to.name, to.tensor);
    copies.emplace_back(&to.tensor, found->second);
    given.erase(found);
  }
  require(given.empty(), kOp, given.empty() ? "" : given.begin()->first,
          "unexpected", "a name to restore");
  for (const auto& [to, from] : copies) {
    const Tensor source = contiguous(*from);
    const auto bytes = source.view.bytes();
    if (!bytes.empty())
      std::memcpy(to->mutable_data(), bytes.data(), bytes.size());
  }
}

std::vector<NamedTensor> with_prefix(const std::string& prefix,
                                     std::vector<NamedTensor> tensors) {
  for (NamedTensor& t : tensors) t.name.insert(0, prefix + ".");
  return tensors;
}

std::vector<NamedTensor> join_sections(
    std::map<std::string, std::vector<NamedTensor>> by_prefix) {
  std::vector<NamedTensor> out;
  for (auto& [prefix, tensors] : by_prefix)
    for (NamedTensor& t : with_prefix(prefix, std::move(tensors)))
      out.push_back(std::move(t));
  return out;
}

std::map<std::string, std::vector<NamedTensor>> sections(
    const Checkpoint& checkpoint, const std::vector<std::string>& prefixes) {
  constexpr std::string_view kOp = "sections";
  std::map<std::string, std::vector<NamedTensor>> out;
  for (const NamedTensor& t : checkpoint.tensors) {
    // The longest that fits: "model" does not take what "model.ema" means.
    const std::string* best = nullptr;
    for (const std::string& prefix : prefixes)
      if (t.name.starts_with(prefix + ".") &&
          (best == nullptr || prefix.size() > best->size()))
        best = &prefix;
    require(best != nullptr, kOp, t.name, "unexpected",
            "a tensor of one of the prefixes");
    out[*best].push_back({t.name.substr(best->size() + 1), t.tensor});
  }
  for (const std::string& prefix : prefixes)
    require(out.contains(prefix), kOp, prefix, "missing",
            "tensors of this prefix");
  return out;
}

CheckpointMetadata to_metadata(const TrainingState& state) {
  require(state.step >= 0, "to_metadata", "step", std::to_string(state.step),
          ">= 0");
  CheckpointMetadata out = {
      {"step", fixed(static_cast<std::uint64_t>(state.step))},
      {"recipe", state.recipe}};
  for (const auto& [name, random] : state.random)
    out[std::string(kRandom) + name] =
        fixed(random.seed) + " " + fixed(random.draws);
  return out;
}

TrainingState training_state(const CheckpointMetadata& metadata) {
  constexpr std::string_view kOp = "training_state";
  const auto value = [&](const char* key) {
    const auto found = metadata.find(key);
    require(found != metadata.end(), kOp, key, "missing",
            "an entry of the metadata");
    return found->second;
  };
  TrainingState out;
  out.step = number<std::int64_t>("step", value("step"));
  require(out.step >= 0, kOp, "step", std::to_string(out.step), ">= 0");
  out.recipe = value("recipe");
  for (const auto& [key, text] : metadata) {
    if (!key.starts_with(kRandom)) continue;
    const std::size_t space = text.find(' ');
    require(space != std::string::npos, kOp, key, "\"" + printable(text) + "\"",
            "a seed and a count of draws");
    const std::string_view both = text;
    out.random[key.substr(kRandom.size())] = {
        number<std::uint64_t>(key, both.substr(0, space)),
        number<std::uint64_t>(key, both.substr(space + 1))};
  }
  return out;
}

}  // namespace assay::te
