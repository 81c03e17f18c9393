// Writes traces as .safetensors and .npy, and picks the writer for a path.
#include "assay/trace/convert.h"

#include <utility>

#include "assay/base/error.h"
#include "assay/formats/npy_writer.h"
#include "assay/formats/safetensors_writer.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

void add(const TensorView& view, ConvertSummary& summary) {
  ++summary.tensors;
  summary.bytes += storage_bytes(view.dtype, view.numel()).value_or(0);
}

ConvertSummary write_one_npy(const Trace& trace, const fs::path& out) {
  const Record* only = nullptr;
  for (const Record& record : trace.records) {
    if (!record.is_tensor) continue;
    if (only != nullptr) {
      throw Error(Code::kUsage, trace.path.string() +
                                    ": holds several tensors, a .npy file one; "
                                    "write .safetensors or a directory");
    }
    only = &record;
  }
  if (only == nullptr) {
    throw Error(Code::kUnreadable, trace.path.string() + ": holds no tensor");
  }
  ConvertSummary summary;
  const Tensor tensor = trace.loader->load(*only);
  write_npy(out, tensor.view);
  add(tensor.view, summary);
  return summary;
}

// What the header must announce: the payload's own dtype and shape, which a
// dump's JSON may tell differently.
std::vector<TensorInfo> plan(const Trace& trace,
                             std::vector<const Record*>& records,
                             ConvertSummary& summary) {
  std::vector<TensorInfo> infos;
  for (const Record& record : trace.records) {
    if (!record.is_tensor) continue;
    const std::string name = trace.name(record);
    try {
      const Tensor tensor = trace.loader->load(record);
      if (traits(tensor.view.dtype).safetensors.empty() ||
          tensor.view.dtype == DType::kC128) {
        summary.left_out.push_back(name + ": .safetensors has no " +
                                   std::string(traits(tensor.view.dtype).name));
        continue;
      }
      infos.push_back({name, tensor.view.dtype, tensor.view.shape, ""});
      records.push_back(&record);
    } catch (const Error& error) {
      summary.left_out.push_back(name + ": " + error.what());
    }
  }
  return infos;
}

ConvertSummary write_safetensors(const Trace& trace, const fs::path& out) {
  ConvertSummary summary;
  std::vector<const Record*> records;
  auto infos = plan(trace, records, summary);
  if (infos.empty()) {
    throw Error(Code::kUnreadable,
                trace.path.string() + ": no tensor could be read" +
                    (summary.left_out.empty()
                         ? std::string()
                         : ", first: " + summary.left_out.front()));
  }
  SafetensorsWriter writer(out, std::move(infos));
  for (const Record* record : records) {
    const Tensor tensor = trace.loader->load(*record);
    writer.write(tensor.view);
    add(tensor.view, summary);
  }
  writer.commit();
  return summary;
}

ConvertKind kind_of(const fs::path& out) {
  if (out.extension() == ".safetensors") return ConvertKind::kSafetensors;
  if (out.extension() == ".npy") return ConvertKind::kNpy;
  return ConvertKind::kMsprobe;
}

void merge(ConvertSummary part, ConvertSummary& whole) {
  whole.tensors += part.tensors;
  whole.bytes += part.bytes;
  for (std::string& line : part.left_out) {
    whole.left_out.push_back(std::move(line));
  }
}

fs::path place(const TraceLocation& location, const fs::path& out) {
  return out / ("step" + std::to_string(location.step)) /
         ("rank" + std::to_string(location.rank));
}

}  // namespace

ConvertSummary convert_trace(const Trace& trace, const fs::path& out,
                             ConvertKind kind) {
  switch (kind) {
    case ConvertKind::kNpy:
      return write_one_npy(trace, out);
    case ConvertKind::kSafetensors:
      return write_safetensors(trace, out);
    case ConvertKind::kMsprobe:
      break;
  }
  return write_msprobe(trace, out);
}

ConvertSummary convert_path(const fs::path& in, const fs::path& out,
                            const TraceReadOptions& options) {
  const auto locations = locate_traces(in);
  const ConvertKind kind = kind_of(out);
  if (locations.size() > 1 && kind != ConvertKind::kMsprobe) {
    throw Error(Code::kUsage,
                in.string() + ": holds " + std::to_string(locations.size()) +
                    " dumps, one file takes one; name a directory");
  }
  ConvertSummary summary;
  for (const TraceLocation& location : locations) {
    const bool nested = kind == ConvertKind::kMsprobe &&
                        (location.numbered || locations.size() > 1);
    merge(convert_trace(read_trace(location, options),
                        nested ? place(location, out) : out, kind),
          summary);
  }
  return summary;
}

}  // namespace assay
