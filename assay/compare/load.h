// Loads the tensor of a record and gives its memory back after use.
#pragma once

#include <memory>
#include <string>

#include "assay/compare/page_reaper.h"
#include "assay/compare/row_judge.h"

namespace assay {

// A tensor in use. Its destructor takes mapped pages out of memory, and those
// of a huge one leave while it is read, so a pass over a dump of any size
// needs little.
class LoadedTensor {
 public:
  explicit LoadedTensor(const RecordRef& ref);  // throws Error
  ~LoadedTensor();
  LoadedTensor(const LoadedTensor&) = delete;
  LoadedTensor& operator=(const LoadedTensor&) = delete;

  const TensorView& view() const { return tensor_.view; }
  // May be replaced by another tensor of the same values (narrowed).
  Tensor& tensor() { return tensor_; }
  // Bytes of the elements as they are in the file.
  std::int64_t size() const { return size_; }
  // Throws Error{kUnreadable} when the file was truncated while it was used.
  void check_intact() const;

 private:
  Tensor tensor_;
  Tensor original_;
  std::int64_t size_ = 0;
  std::string file_;
  std::unique_ptr<PageReaper> reaper_;
};

}  // namespace assay
