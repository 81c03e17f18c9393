#include "assay/precheck/replay.h"

#include <fmt/format.h>

#include <future>
#include <utility>

#include "assay/base/error.h"
#include "assay/conform/tensor_file.h"
#include "assay/precheck/signature.h"

namespace assay::precheck {
namespace {

namespace fs = std::filesystem;
using conform::CaseRun;

// Torch's generators take 63 bits.
constexpr std::uint64_t kSeedMask = ~std::uint64_t{0} >> 1;

// A file that goes when it is no longer needed.
class InputFile {
 public:
  InputFile(fs::path path, const conform::TensorMap& tensors)
      : path_(std::move(path)) {
    conform::write_tensors(tensors, path_);
  }
  ~InputFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Names of tensors that the answer stores as pairs of float64.
void undo_pairs(CaseRun& run) {
  const auto dtypes = run.outcome.contract.find("dtypes");
  if (dtypes == run.outcome.contract.end() || run.outcome.outputs.empty())
    return;
  for (auto& [name, tensor] : run.outcome.outputs[0]) {
    const conform::Value* dtype = dtypes->second.find(name);
    if (!dtype || !dtype->is_text()) continue;
    try {
      if (dtype->text() == "complex128") tensor = as_complex(tensor);
    } catch (const Error& error) {
      run.ending = conform::Ending::kGarbage;
      run.message =
          fmt::format("its answer's dtypes.{}: {}", name, error.what());
    }
  }
}

}  // namespace

CaseRun Replayer::ask(WorkerPool& pool, const PlannedCall& planned,
                      const CallInputs& inputs, const std::string& precision,
                      int runs, const fs::path& file, const fs::path& outputs) {
  conform::RunRequest request;
  request.subject.module = "api_call";
  request.subject.id = planned.call.name;
  request.subject.parameters = parameters_of(planned, inputs, precision, runs);
  request.subject.seed = seed_of(planned.signature) & kSeedMask;
  request.inputs = fs::absolute(file).string();
  request.outputs = fs::absolute(outputs).string();
  CaseRun run;
  {
    WorkerPool::Lease worker(pool);
    run = conform::run_request(worker.workers(), std::move(request));
  }
  // What was read stays mapped.
  std::error_code ignored;
  for (const fs::path& written : run.files) fs::remove(written, ignored);
  undo_pairs(run);
  return run;
}

Replayed Replayer::run(const PlannedCall& planned, const CallInputs& inputs,
                       int runs, std::size_t index) {
  const fs::path base = scratch_.path() / std::to_string(index);
  const InputFile file(base.string() + ".in.safetensors", inputs.tensors);
  auto golden = std::async(std::launch::async, [&] {
    return ask(golden_, planned, inputs, "float64", 1, file.path(),
               base.string() + ".golden");
  });
  Replayed replayed;
  replayed.device = ask(device_, planned, inputs, "given", runs, file.path(),
                        base.string() + ".device");
  replayed.golden = golden.get();
  return replayed;
}

CaseRun Replayer::golden(const PlannedCall& planned, const CallInputs& inputs,
                         const conform::TensorMap& tensors,
                         const std::string& precision, std::size_t index) {
  const fs::path base = scratch_.path() / std::to_string(index);
  const InputFile file(base.string() + ".again.safetensors", tensors);
  return ask(golden_, planned, inputs, precision, 1, file.path(),
             base.string() + ".again");
}

}  // namespace assay::precheck
