// Trains a small GPT on the bytes of a text with any of the recipes, in one
// process or in the tensor parallel group that mpirun started:
// docs/training.md.
#include <cstdio>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/te/parallel/communicator.h"
#include "examples/train_gpt/interrupt.h"
#include "examples/train_gpt/options.h"
#include "examples/train_gpt/run.h"

using namespace assay;
using namespace assay::train_gpt;

namespace {

int complain(const std::string& message, int code) {
  std::fprintf(stderr, "train_gpt: %s\n", message.c_str());
  return code;
}

// The processes that mpirun started: as many as --tp. Null for one alone.
std::shared_ptr<te::Communicator> tensor_parallel_group(int ranks) {
  std::shared_ptr<te::Communicator> group;
  if (te::launched_by_mpi()) group = te::mpi_communicator();
  const int started = group ? group->size() : 1;
  if (started == ranks) return group;
  throw Error(Code::kUsage, "--tp: " + std::to_string(ranks) + ", but " +
                                std::to_string(started) +
                                " processes, expected as many as mpirun -np "
                                "starts");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const CommandLine line = parse_command_line(arguments);
  if (line.exit_code == kDone) std::printf("%s", line.message.c_str());
  if (line.exit_code == kUsage) return complain(line.message, kUsage);
  if (line.exit_code) return *line.exit_code;
  try {
    set_thread_count(line.options.threads);
    install_interrupt_handler();
    Run run(line.options, tensor_parallel_group(line.options.tp),
            command_to_go_on(arguments, line.options.tp));
    return run.train();
  } catch (const Error& error) {
    return complain(error.what(),
                    error.code() == Code::kUsage ? kUsage : kUnreadable);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kUnreadable);
  }
}
