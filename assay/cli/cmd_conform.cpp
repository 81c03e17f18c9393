// `assay conform`: the verbs of the golden loop.
#include <utility>

#include "assay/cli/commands.h"

namespace assay {

std::unique_ptr<Command> make_conform_command() {
  std::vector<std::unique_ptr<Command>> members;
  members.push_back(make_conform_cases_command());
  members.push_back(make_conform_lint_command());
  members.push_back(make_conform_new_command());
  members.push_back(make_conform_collect_command());
  members.push_back(make_conform_run_command());
  members.push_back(make_conform_loop_command());
  members.push_back(make_conform_report_command());
  members.push_back(make_conform_pack_command());
  members.push_back(make_conform_unpack_command());
  return make_command_group(
      "conform", "judge a port by goldens of the implementation it replaces",
      std::move(members));
}

}  // namespace assay
