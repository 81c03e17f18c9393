#include "assay/formats/torch_file.h"

#include <cstring>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/tensor_layout.h"
#include "assay/formats/torch_file_walk.h"

namespace assay {
namespace {

constexpr std::string_view kPickleName = "data.pkl";
// PROTO 2, LONG1 of 10 bytes, 0x1950a86a20f9469cfc6c, STOP.
constexpr std::string_view kLegacyMagic(
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15);
constexpr std::uint64_t kPickleMemory = 16 << 20;

const ZipEntry* find_pickle(const ZipArchive& archive) {
  for (const ZipEntry& entry : archive.entries()) {
    const auto slash = entry.name.find('/');
    if (slash != std::string_view::npos &&
        entry.name.substr(slash + 1) == kPickleName) {
      return &entry;
    }
  }
  return nullptr;
}

class TorchSource final : public TensorSource {
 public:
  explicit TorchSource(ZipArchive archive) : zip_(std::move(archive)) {
    format_ = "torch";
    mapping_ = zip_.file().mapping;
    const ZipEntry* pickle = find_pickle(zip_);
    if (!pickle) fail(0, "no <folder>/data.pkl", "a torch.save archive");
    folder_ = pickle->name.substr(0, pickle->name.size() - kPickleName.size());
    check_members();
    read_byte_order();
    read_pickle(*pickle);
    zip_.file().check_intact();
  }

  Tensor load(std::size_t index) const override {
    const TensorInfo& info = tensors_.at(index);
    if (!info.unsupported.empty()) {
      throw Error(Code::kUnsupported, zip_.file().name + ": '" +
                                          printable(info.name) +
                                          "': " + info.unsupported);
    }
    const TorchLeaf& leaf = leaves_[index];
    if (leaf.is_scalar) return scalar(info, leaf);
    if (leaf.is_text) return text(info, leaf);
    if (leaf.tensor.pairs) return unpaired(info, leaf);
    return tensor_over(leaf.tensor.part, zip_.file().owner, info.dtype,
                       info.shape, leaf.tensor.strides, order_);
  }

 private:
  [[noreturn]] void fail(std::uint64_t offset, std::string_view found,
                         std::string_view expected) const {
    refuse(zip_.file().name, offset, found, expected);
  }

  static Tensor scalar(const TensorInfo& info, const TorchLeaf& leaf) {
    Tensor tensor = Tensor::zeros(info.dtype, {});
    std::memcpy(tensor.mutable_data(), leaf.scalar.data(),
                tensor.view.bytes().size());
    return tensor;
  }

  static Tensor text(const TensorInfo& info, const TorchLeaf& leaf) {
    Tensor tensor = Tensor::zeros(DType::kU8, info.shape);
    if (leaf.text.empty()) return tensor;
    std::memcpy(tensor.mutable_data(), leaf.text.data(), leaf.text.size());
    return tensor;
  }

  // Torch counts a byte of two float4 codes as one element.
  Tensor unpaired(const TensorInfo& info, const TorchLeaf& leaf) const {
    Shape bytes = info.shape;
    bytes.back() /= 2;
    Tensor tensor =
        contiguous(tensor_over(leaf.tensor.part, zip_.file().owner, DType::kU8,
                               std::move(bytes), leaf.tensor.strides));
    tensor.view.dtype = info.dtype;
    tensor.view.shape = info.shape;
    tensor.view.strides.clear();
    return tensor;
  }

  void check_members() const {
    for (const ZipEntry& entry : zip_.entries()) {
      if (!entry.name.starts_with(folder_)) {
        fail(entry.local_offset,
             "member '" + printable(entry.name.substr(0, 200)) + "'",
             "all members in '" + printable(folder_) + "'");
      }
      const auto rest = entry.name.substr(folder_.size());
      if (rest == "constants.pkl" || rest.starts_with("code/")) {
        fail(entry.local_offset, "a TorchScript archive, which holds code",
             "tensors; save module.state_dict() with torch.save instead");
      }
    }
  }

  void read_byte_order() {
    const ZipEntry* entry = zip_.find(std::string(folder_) + "byteorder");
    if (!entry) return;  // before torch 2.1: little-endian
    const auto text = as_text(zip_.raw(*entry));
    if (entry->method != kZipStored || (text != "little" && text != "big")) {
      fail(entry->data_offset,
           "byteorder '" + printable(text.substr(0, 40)) + "'",
           "'little' or 'big'");
    }
    if (text == "big") order_ = std::endian::big;
  }

  void read_pickle(const ZipEntry& entry) {
    if (entry.method != kZipStored) {
      fail(entry.local_offset, "a compressed data.pkl",
           "a stored one, as torch.save writes");
    }
    // 0 where torch.serialization.set_crc32_options(False) left it out.
    if (entry.crc != 0) zip_.check_crc(entry);
    const Pickle pickle = parse_pickle(
        zip_.raw(entry), torch_allowed_globals(), zip_.file().name,
        entry.data_offset, kPickleMemory + 2 * zip_.file().bytes.size());
    TorchLeaves leaves = walk_torch_pickle(
        {&zip_, &pickle, std::string(folder_), entry.data_offset});
    leaves_ = std::move(leaves.leaves);
    notes_ = std::move(leaves.notes);
    tensors_.reserve(leaves_.size());
    for (TorchLeaf& leaf : leaves_) {
      tensors_.push_back({std::move(leaf.name), leaf.tensor.dtype,
                          std::move(leaf.tensor.shape),
                          std::move(leaf.tensor.unsupported)});
    }
  }

  ZipArchive zip_;
  std::string_view folder_;  // with the slash; points into the file
  std::endian order_ = std::endian::little;
  std::vector<TorchLeaf> leaves_;  // parallel to tensors_, which has the names
};

}  // namespace

bool is_torch_archive(const ZipArchive& archive) {
  return find_pickle(archive) != nullptr;
}

bool is_legacy_torch(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  const bool tar = text.size() >= 512 && text.substr(257, 5) == "ustar";
  return tar || text.starts_with(kLegacyMagic);
}

std::unique_ptr<TensorSource> open_torch(ZipArchive archive,
                                         const ReadOptions&) {
  return std::make_unique<TorchSource>(std::move(archive));
}

std::unique_ptr<TensorSource> open_torch(FileBytes file,
                                         const ReadOptions& options) {
  if (is_legacy_torch(file.bytes)) {
    refuse(file.name, 0, "a file of torch before 1.6",
           "the zip format; load it with torch and save it again with "
           "torch >= 1.6");
  }
  return open_torch(ZipArchive(std::move(file)), options);
}

}  // namespace assay
