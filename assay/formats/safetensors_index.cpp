#include "assay/formats/safetensors_index.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <unordered_map>
#include <utility>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/json_scan.h"
#include "assay/formats/safetensors.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

struct Listed {
  std::string tensor, shard;
};

std::string in_quotes(std::string_view text) {
  return fmt::format("\"{}\"", printable(text));
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0:", 4)) ==
             std::string_view::npos;
}

std::vector<Listed> parse_index(const FileBytes& file) {
  JsonScanner scan(as_text(file.bytes), file.name);
  std::vector<Listed> listed;
  bool has_map = false;
  for (JsonObject object(scan); object.next();) {
    if (object.key() != "weight_map") {
      scan.skip_value();
      continue;
    }
    has_map = true;
    for (JsonObject map(scan); map.next();) {
      scan.peek();
      const std::uint64_t offset = scan.offset();
      listed.push_back({map.key(), scan.string()});
      if (!is_plain_name(listed.back().shard)) {
        refuse(file.name, offset,
               "shard name " + in_quotes(listed.back().shard),
               "a plain file name beside the index");
      }
    }
  }
  scan.finish();
  if (!has_map) refuse(file.name, 0, "no \"weight_map\"", "one");
  return listed;
}

std::unique_ptr<TensorSource> open_shard(const FileBytes& index,
                                         const std::string& name) {
  const fs::path path = index.mapping->path().parent_path() / name;
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(path, ignored))) {
    throw Error(Code::kRefused,
                index.name + ": shard " + in_quotes(name) +
                    " is a symbolic link, expected a file (copy the links' "
                    "targets with cp -L)");
  }
  return open_safetensors(FileBytes::of(MappedFile::open(path)));
}

class ShardedSource : public TensorSource {
 public:
  explicit ShardedSource(const FileBytes& index) : name_(index.name) {
    format_ = "safetensors index";
    const std::vector<Listed> listed = parse_index(index);
    for (const Listed& entry : listed) {
      const auto [at, fresh] = shard_number_.try_emplace(entry.shard, 0);
      if (!fresh) continue;
      at->second = shards_.size();
      add_shard(open_shard(index, entry.shard), entry.shard);
    }
    for (const Listed& entry : listed) check_listed(entry);
    if (tensors_.size() > listed.size()) {
      notes_.push_back(std::to_string(tensors_.size() - listed.size()) +
                       " tensors of the shards are not in the index");
    }
  }

  Tensor load(std::size_t index) const override {
    const Place& place = places_.at(index);
    return shards_[place.shard]->load(place.index);
  }

  void check_intact() const override {
    for (const auto& shard : shards_) shard->check_intact();
  }

 private:
  struct Place {
    std::size_t shard, index;
  };

  void add_shard(std::unique_ptr<TensorSource> shard,
                 const std::string& shard_name) {
    for (std::size_t i = 0; i < shard->tensors().size(); ++i) {
      const TensorInfo& info = shard->tensors()[i];
      if (!by_name_.try_emplace(info.name, places_.size()).second) {
        throw Error(Code::kRefused, name_ + ": tensor " + in_quotes(info.name) +
                                        " of shard " + in_quotes(shard_name) +
                                        " is in another shard too, expected "
                                        "each name once");
      }
      places_.push_back({shards_.size(), i});
      tensors_.push_back(info);
    }
    shards_.push_back(std::move(shard));
  }

  void check_listed(const Listed& entry) const {
    const auto at = by_name_.find(entry.tensor);
    if (at != by_name_.end() &&
        places_[at->second].shard == shard_number_.at(entry.shard)) {
      return;
    }
    throw Error(Code::kRefused, name_ + ": tensor " + in_quotes(entry.tensor) +
                                    " is not in shard " +
                                    in_quotes(entry.shard) +
                                    " as the index says");
  }

  std::string name_;
  std::vector<std::unique_ptr<TensorSource>> shards_;
  std::map<std::string, std::size_t> shard_number_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<Place> places_;
};

}  // namespace

std::unique_ptr<TensorSource> open_safetensors_index(FileBytes file) {
  if (!file.mapping) {
    throw Error(Code::kUnsupported,
                file.name +
                    ": a safetensors index inside another file has no "
                    "folder to find its shards in");
  }
  return std::make_unique<ShardedSource>(file);
}

}  // namespace assay
