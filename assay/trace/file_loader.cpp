// Loads the tensors of a trace from the files in one directory.
#include "assay/trace/file_loader.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "assay/base/error.h"
#include "assay/formats/tensor_source.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxOpenFiles = 64;

class FileLoader : public TensorLoader {
 public:
  FileLoader(fs::path base, const TraceReadOptions& options, bool one)
      : base_(std::move(base)), raw_(options.raw), one_(one) {}

  Tensor load(const Record& record) const override {
    if (!record.unreadable.empty()) {
      throw Error(Code::kUnreadable, record.unreadable);
    }
    if (record.file.empty()) {
      throw Error(Code::kUnreadable, record.leaf + ": the dump kept no tensor");
    }
    if (one_) return load_only(record);
    const auto source = find(record.file);
    if (record.entry >= source->tensors().size()) {
      throw Error(Code::kUnreadable,
                  path(record) + ": the file changed while it was read");
    }
    return source->load(record.entry);
  }

 private:
  std::string path(const Record& record) const {
    return (base_ / record.file).string();
  }

  ReadOptions options() const {
    return {raw_.dtype, raw_.shape, raw_.big_endian};
  }

  Tensor load_only(const Record& record) const {
    ReadOptions facts = options();
    if (!facts.dtype) facts.dtype = record.facts.dtype;
    if (!facts.shape) facts.shape = record.facts.shape;
    const auto source = open_tensors(base_ / record.file, facts);
    if (source->tensors().size() != 1) {
      throw Error(Code::kRefused, path(record) + ": holds " +
                                      std::to_string(source->tensors().size()) +
                                      " tensors, expected one");
    }
    return source->load(0);
  }

  std::shared_ptr<const TensorSource> find(const std::string& file) const {
    {
      const std::lock_guard lock(mutex_);
      const auto it = open_.find(file);
      if (it != open_.end()) return it->second;
    }
    std::shared_ptr<const TensorSource> source =
        open_tensors(base_ / file, options());
    if (source->tensors().size() > 1) {
      const std::lock_guard lock(mutex_);
      if (open_.size() >= kMaxOpenFiles) open_.erase(open_.begin());
      open_[file] = source;
    }
    return source;
  }

  fs::path base_;
  TraceReadOptions::Raw raw_;
  bool one_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const TensorSource>> open_;
};

}  // namespace

std::shared_ptr<const TensorLoader> make_file_loader(
    fs::path base, const TraceReadOptions& options, bool one_tensor_each) {
  return std::make_shared<FileLoader>(std::move(base), options,
                                      one_tensor_each);
}

}  // namespace assay
