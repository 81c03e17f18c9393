// `assay precheck`: the verbs of the check of single API calls.
#include <utility>

#include "assay/cli/commands.h"

namespace assay {

std::unique_ptr<Command> make_precheck_command() {
  std::vector<std::unique_ptr<Command>> members;
  members.push_back(make_precheck_run_command());
  members.push_back(make_precheck_compare_command());
  return make_command_group(
      "precheck", "replay the API calls of a trace and judge each alone",
      std::move(members));
}

}  // namespace assay
