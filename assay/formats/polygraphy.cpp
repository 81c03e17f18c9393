#include "assay/formats/polygraphy.h"

#include <algorithm>
#include <utility>

#include "assay/base/text.h"
#include "assay/formats/base64.h"
#include "assay/formats/bytes.h"
#include "assay/formats/npy.h"
#include "assay/formats/npz.h"
#include "assay/formats/polygraphy_json.h"
#include "assay/formats/torch_file.h"

namespace assay {
namespace {

using Kind = PolygraphyArray::Kind;

constexpr std::string_view kNpyAsText = "\u0093NUMPY";
constexpr std::string_view kZipMagic = "PK\x03\x04";

// Code points up to U+00FF back to the bytes that old versions wrote as text.
std::vector<std::byte> latin1_bytes(std::string_view utf8,
                                    std::string_view file,
                                    std::uint64_t offset) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    if (c < 0x80) {
      out.push_back(std::byte{c});
      continue;
    }
    if (c > 0xc3) refuse(file, offset, "a character above U+00FF", "latin-1");
    const auto low = static_cast<unsigned char>(utf8[++i]);
    out.push_back(static_cast<std::byte>(c << 6 | (low & 0x3f)));
  }
  return out;
}

std::vector<std::byte> decode(const JsonText& payload, std::string_view file) {
  if (!payload.escaped) {
    return base64_decode(payload.raw, file, payload.offset);
  }
  const std::string text = json_decode(payload, file);
  if (text.starts_with(kNpyAsText) || text.starts_with(kZipMagic)) {
    return latin1_bytes(text, file, payload.offset);
  }
  return base64_decode(text, file, payload.offset);
}

class PolygraphySource : public TensorSource {
 public:
  PolygraphySource(FileBytes file, const ReadOptions& options)
      : file_(std::move(file)), options_(options) {
    format_ = "polygraphy";
    mapping_ = file_.mapping;
    arrays_ = find_polygraphy_arrays(file_);
    for (const PolygraphyArray& array : arrays_) {
      tensors_.push_back(describe(array));
    }
    file_.check_intact();
  }

  Tensor load(std::size_t index) const override {
    const TensorInfo& info = tensors_.at(index);
    if (!info.unsupported.empty()) {
      throw Error(Code::kUnsupported, info.unsupported);
    }
    return open(arrays_[index])->load(0);
  }

 private:
  TensorInfo describe(const PolygraphyArray& array) const {
    TensorInfo info;
    if (array.kind == Kind::kNone) {
      info.unsupported = place(array) + ": " + array.why;
    } else {
      try {
        info = open(array)->tensors()[0];
      } catch (const Error& error) {
        if (error.code() != Code::kUnsupported) throw;
        info.unsupported = error.what();
      }
    }
    info.name = array.name;
    return info;
  }

  std::string place(const PolygraphyArray& array) const {
    return file_.name + ": \"" + printable(array.name) + "\"";
  }

  // The array's own file format over its decoded bytes; exactly one tensor.
  std::unique_ptr<TensorSource> open(const PolygraphyArray& array) const {
    auto buffer = std::make_shared<std::vector<std::byte>>(
        decode(array.payload, file_.name));
    FileBytes part{*buffer, buffer, place(array), nullptr};
    std::unique_ptr<TensorSource> source;
    if (array.kind == Kind::kTorch) {
      source = open_torch(std::move(part), options_);
    } else if (as_text(*buffer).starts_with(kZipMagic)) {
      source = open_npz(std::move(part), options_);
    } else {
      source = open_npy(std::move(part), options_);
    }
    if (source->tensors().size() != 1) {
      throw Error(Code::kRefused, place(array) + ": found " +
                                      std::to_string(source->tensors().size()) +
                                      " tensors in one payload, expected 1");
    }
    return source;
  }

  FileBytes file_;
  ReadOptions options_;
  std::vector<PolygraphyArray> arrays_;
};

}  // namespace

std::unique_ptr<TensorSource> open_polygraphy(FileBytes file,
                                              const ReadOptions& options) {
  return std::make_unique<PolygraphySource>(std::move(file), options);
}

}  // namespace assay
