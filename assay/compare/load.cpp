#include "assay/compare/load.h"

#include <fmt/format.h>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"

namespace assay {
namespace {

// Smaller tensors are copies already, or not worth a system call.
constexpr std::int64_t kReleaseFrom = 256 * 1024;

}  // namespace

LoadedTensor::LoadedTensor(const RecordRef& ref) : file_(ref.record->file) {
  if (!ref.trace->loader) {
    throw Error(Code::kUnreadable, file_ + ": its trace cannot load tensors");
  }
  tensor_ = ref.trace->loader->load(*ref.record);
  original_ = tensor_;
  size_ = storage_bytes(tensor_.view.dtype, tensor_.view.numel()).value_or(0);
  if (original_.view.is_contiguous()) {
    reaper_ = std::make_unique<PageReaper>(original_.view.bytes());
  }
}

LoadedTensor::~LoadedTensor() {
  reaper_.reset();
  if (size_ < kReleaseFrom || !original_.view.is_contiguous()) return;
  MappedFile::release(original_.view.bytes());
}

void LoadedTensor::check_intact() const {
  if (MappedFile::intact(original_.view.data)) return;
  throw Error(Code::kUnreadable,
              fmt::format("{}: was truncated while it was read", file_));
}

}  // namespace assay
