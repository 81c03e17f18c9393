#include "assay/formats/npz.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/npy.h"

namespace assay {
namespace {

constexpr std::uint64_t kFirstRead = 4096;
constexpr std::uint64_t kMaxHeader = 1 << 20;  // only of deflated members
constexpr std::string_view kSuffix = ".npy";

class NpzSource final : public TensorSource {
 public:
  NpzSource(ZipArchive archive, const ReadOptions& options)
      : archive_(std::move(archive)) {
    format_ = "npz";
    mapping_ = archive_.file().mapping;
    layouts_.reserve(archive_.entries().size());
    tensors_.reserve(archive_.entries().size());
    for (const ZipEntry& entry : archive_.entries()) add(entry, options);
    refuse_same_names();
    archive_.file().check_intact();
  }

  Tensor load(std::size_t index) const override {
    const TensorInfo& info = tensors_.at(index);
    const ZipEntry& entry = archive_.entries()[index];
    const std::string where = display_name(entry);
    if (!info.unsupported.empty()) {
      throw Error(Code::kUnsupported, where + ": " + info.unsupported);
    }
    if (entry.method == kZipDeflated) {
      auto content =
          std::make_shared<std::vector<std::byte>>(archive_.inflate(entry));
      return layouts_[index]->tensor(*content, content, where);
    }
    archive_.check_crc(entry);
    return layouts_[index]->tensor(archive_.raw(entry), archive_.file().owner,
                                   where);
  }

 private:
  std::string display_name(const ZipEntry& entry) const {
    return archive_.file().name + ": member '" +
           printable(entry.name.substr(0, 200)) + "'";
  }

  void add(const ZipEntry& entry, const ReadOptions& options) {
    if (!entry.name.ends_with(kSuffix)) {
      TensorInfo info;
      info.name = std::string(entry.name);
      info.unsupported = "a member that is no .npy array";
      tensors_.push_back(std::move(info));
      layouts_.emplace_back();
      return;
    }
    const std::string_view name =
        entry.name.substr(0, entry.name.size() - kSuffix.size());
    const std::string where = display_name(entry);
    // Offsets of a stored member are file offsets, else offsets in its content.
    const bool stored = entry.method == kZipStored;
    const std::uint64_t base = stored ? entry.data_offset : 0;
    NpyHeader header = stored
                           ? parse_npy_header(archive_.raw(entry), where, base)
                           : inflated_header(entry, where);
    layouts_.emplace_back(
        NpyLayout(std::move(header), entry.size, options, where, base));
    tensors_.push_back(layouts_.back()->info(std::string(name)));
  }

  NpyHeader inflated_header(const ZipEntry& entry,
                            const std::string& where) const {
    auto start = archive_.prefix(entry, kFirstRead);
    const std::uint64_t end = npy_header_end(start, where, 0);
    if (end > entry.size || end > kMaxHeader) {
      refuse(where, 8, "a header that ends at " + std::to_string(end),
             "at most " + std::to_string(std::min(entry.size, kMaxHeader)));
    }
    if (end > start.size()) start = archive_.prefix(entry, end);
    return parse_npy_header(start, where, 0);
  }

  void refuse_same_names() const {
    std::unordered_set<std::string_view> seen;
    for (const TensorInfo& info : tensors_) {
      if (!seen.insert(info.name).second) {
        throw Error(Code::kRefused,
                    archive_.file().name + ": two members are named '" +
                        printable(info.name) + "', expected each name once");
      }
    }
  }

  ZipArchive archive_;
  std::vector<std::optional<NpyLayout>> layouts_;  // parallel to tensors_
};

}  // namespace

std::unique_ptr<TensorSource> open_npz(ZipArchive archive,
                                       const ReadOptions& options) {
  return std::make_unique<NpzSource>(std::move(archive), options);
}

}  // namespace assay
