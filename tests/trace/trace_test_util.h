// What the tests of this folder share: reading a dump from text, expecting an
// Error.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/error.h"
#include "assay/core/tensor.h"
#include "assay/trace/trace.h"
#include "tests/trace/temp_dir.h"

namespace assay {

// A dump.json around the members of "data".
inline std::string dump_text(std::string_view data,
                             std::string_view task = "statistics",
                             std::string_view level = "mix") {
  return "{\"task\": \"" + std::string(task) + "\", \"level\": \"" +
         std::string(level) +
         "\", \"framework\": \"pytorch\", \"dump_data_dir\": null,\n"
         " \"data\": {" +
         std::string(data) + "}}";
}

// The only dump under `path`.
inline Trace read_only(const std::filesystem::path& path) {
  const auto locations = locate_traces(path);
  EXPECT_EQ(locations.size(), 1u);
  return read_trace(locations.at(0));
}

inline Trace read_dump(const TempDir& dir, std::string_view data,
                       std::string_view task = "statistics") {
  dir.write("dump.json", dump_text(data, task));
  return read_only(dir.path());
}

inline std::vector<std::string> names(const Trace& trace) {
  std::vector<std::string> result;
  for (const Record& record : trace.records) {
    result.push_back(trace.name(record));
  }
  return result;
}

inline std::vector<std::string> op_names(const Trace& trace) {
  std::vector<std::string> result;
  for (const Op& op : trace.ops) result.push_back(op.name);
  return result;
}

inline const Record& find(const Trace& trace, std::string_view name) {
  static const Record nothing;
  for (const Record& record : trace.records) {
    if (trace.name(record) == name) return record;
  }
  ADD_FAILURE() << "no record " << name;
  return nothing;
}

// The message of the Error of `code` that `call` throws.
inline std::string error_of(Code code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code))
        << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

inline Tensor f32_tensor(const Shape& shape, const std::vector<float>& values) {
  Tensor tensor = Tensor::zeros(DType::kF32, shape);
  std::copy(values.begin(), values.end(),
            reinterpret_cast<float*>(tensor.mutable_data()));
  return tensor;
}

inline std::vector<float> f32_values(const Tensor& tensor) {
  EXPECT_EQ(tensor.view.dtype, DType::kF32);
  const Tensor dense = contiguous(tensor);
  std::vector<float> values(static_cast<std::size_t>(dense.view.numel()));
  gather(dense.view, 0, dense.view.numel(),
         reinterpret_cast<std::byte*>(values.data()));
  return values;
}

// True when one of the warnings holds `part`.
inline bool warns(const Trace& trace, std::string_view part) {
  for (const std::string& warning : trace.warnings) {
    if (warning.find(part) != warning.npos) return true;
  }
  return false;
}

}  // namespace assay
