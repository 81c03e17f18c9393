#include "assay/conform/case_run.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/tensor_file.h"

namespace assay::conform {
namespace {

CaseRun unsupported(std::string message) {
  CaseRun run;
  run.outcome.status = RunAnswer::Status::kUnsupported;
  run.outcome.error = "unsupported";
  run.outcome.message = std::move(message);
  return run;
}

void read_outputs(const RunRequest& request, CaseRun& run) {
  for (int rank = 0; rank < request.subject.ranks; ++rank) {
    const std::string file = output_file(request.outputs, rank);
    try {
      run.outcome.outputs.push_back(read_tensors(file));
      run.files.emplace_back(file);
    } catch (const std::exception& error) {
      run.ending = Ending::kGarbage;
      run.message = fmt::format("its outputs cannot be read: {}", error.what());
      return;
    }
  }
}

CaseRun understood(WorkerReply reply, const RunRequest& request) {
  CaseRun run;
  run.ending = reply.ending;
  run.message = std::move(reply.message);
  run.log = std::move(reply.log);
  run.outcome.status = reply.answer.status;
  run.outcome.error = std::move(reply.answer.error);
  run.outcome.message = std::move(reply.answer.message);
  run.outcome.contract = std::move(reply.answer.contract);
  run.seconds = reply.answer.seconds;
  run.peak_bytes = reply.answer.peak_bytes;
  if (run.ending == Ending::kCompared && run.outcome.ok())
    read_outputs(request, run);
  return run;
}

void remove_outputs(const RunRequest& request) {
  for (int rank = 0; rank < request.subject.ranks; ++rank) {
    std::error_code ignored;
    std::filesystem::remove_all(output_file(request.outputs, rank), ignored);
  }
}

}  // namespace

CaseRun run_request(WorkerSet& workers, RunRequest request) {
  const Case& c = request.subject;
  try {
    const Hello& hello = workers.of(1).hello();
    if (hello.modules.count(c.module) == 0)
      return unsupported(
          fmt::format("{} has no module {}", hello.implementation, c.module));
    WorkerClient& worker = workers.of(c.ranks);
    // Those of a case before would pass for an answer's.
    remove_outputs(request);
    return understood(worker.run(request), request);
  } catch (const Error& error) {
    if (error.code() == Code::kUnsupported) return unsupported(error.what());
    CaseRun run;
    run.ending = Ending::kCrashed;
    run.message = error.what();
    run.log = workers.of(1).start_log();
    return run;
  }
}

CaseRun run_case(WorkerSet& workers, const Spec& spec, const Case& c,
                 const std::filesystem::path& inputs,
                 const std::filesystem::path& prefix) {
  RunRequest request;
  request.subject = c;
  request.strided = strided_inputs(spec, c);
  request.inputs = inputs.string();
  request.outputs = prefix.string();
  return run_request(workers, std::move(request));
}

}  // namespace assay::conform
