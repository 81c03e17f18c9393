// `assay env`: what two trainings ran with, and what of it differs.
#include <utility>
#include <vector>

#include "assay/cli/commands.h"

namespace assay {

std::unique_ptr<Command> make_env_command() {
  std::vector<std::unique_ptr<Command>> verbs;
  verbs.push_back(make_env_snapshot_command());
  verbs.push_back(make_env_diff_command());
  return make_command_group(
      "env", "record what a training runs with, and compare two such records",
      std::move(verbs));
}

}  // namespace assay
