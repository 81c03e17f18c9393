// `assay env snapshot`: what a training runs with, in one file.
#include <filesystem>

#include "assay/base/atomic_file.h"
#include "assay/base/clock.h"
#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/base/text_out.h"
#include "assay/cli/color_flag.h"
#include "assay/cli/commands.h"
#include "assay/cli/env_probe.h"
#include "assay/cli/exit_code.h"
#include "assay/cli/report_paths.h"
#include "assay/env/config_file.h"
#include "assay/env/environment.h"
#include "assay/env/script.h"
#include "assay/env/secrets.h"
#include "assay/env/snapshot.h"
#include "assay/env/system_facts.h"

namespace assay {
namespace {

using env::Section;

class EnvSnapshotCommand : public Command {
 public:
  std::string name() const override { return "snapshot"; }
  std::string summary() const override {
    return "write hyperparameters, variables, versions, switches and devices "
           "to a file";
  }
  std::string examples() const override {
    return "  assay env snapshot --out npu.json --script pretrain_npu.sh\n"
           "  assay env snapshot --out a.json --config train.yaml --init "
           "init.json\n"
           "  assay env snapshot --out a.json -- torchrun --nproc_per_node 8 "
           "train.py --lr 1e-4\n"
           "  assay env snapshot --out a.json --script run.sh --static\n";
  }

  void declare(Args& args) override {
    args.option("-o,--out", "FILE",
                "where the snapshot goes, - for the "
                "standard output",
                &out_, Completes::kPath);
    args.list("--script", "FILE",
              "a shell script that starts the training: it is read, not run",
              &scripts_, Completes::kPath);
    args.list("--config", "FILE",
              "hyperparameters: YAML, JSON, INI, or a log with its arguments",
              &configs_, Completes::kPath);
    args.list("--init", "FILE",
              "what assay.record_init or assay.env wrote in the training",
              &inits_, Completes::kPath);
    args.flag("--env-all",
              "every environment variable, not only those that "
              "may matter",
              &all_);
    args.flag("--static", "only the files named here: nothing of this machine",
              &static_);
    args.flag("-q,--quiet", "print nothing", &quiet_);
    args.optional_positionals("COMMAND",
                              "the command that starts the "
                              "training, after --",
                              &command_, Completes::kPath);
  }

  int run() override {
    check();
    env::Snapshot made;
    if (!static_) {
      made = probe_environment();
      env::collect_environment(all_, made[Section::kEnvironment]);
      env::collect_system(std::filesystem::current_path(),
                          made[Section::kSystem]);
      env::collect_drivers(made[Section::kDevice]);
    }
    for (const std::string& path : inits_)
      env::merge(made, env::read_snapshot(path));
    for (const std::string& path : configs_) add_config(path, made);
    for (const std::string& path : scripts_) add_script(path, made);
    if (!command_.empty())
      add_options(env::command_options(command_, "command line"), made);
    made.taken = utc_time();
    env::hide_secrets(made);
    write(made);
    return kExitMatch;
  }

 private:
  void check() const {
    if (out_.empty())
      throw Error(Code::kUsage, "--out FILE: where the snapshot goes");
    std::vector<std::string> inputs = scripts_;
    inputs.insert(inputs.end(), configs_.begin(), configs_.end());
    inputs.insert(inputs.end(), inits_.begin(), inits_.end());
    check_report_paths({{"--out", out_ == "-" ? "/dev/stdout" : out_}}, inputs);
    if (static_ && inputs.empty() && command_.empty())
      throw Error(Code::kUsage,
                  "--static: give --script, --config, --init or a command");
    if (static_ && all_)
      throw Error(Code::kUsage, "--static and --env-all: one of them");
  }

  static void add_options(const std::map<std::string, env::Value>& options,
                          env::Snapshot& made) {
    env::SectionFacts& facts = made[Section::kHyperparameters];
    facts.collected = true;
    for (const auto& [key, value] : options) facts.values[key] = value;
  }

  static void add_config(const std::string& path, env::Snapshot& made) {
    add_options(env::read_config(path), made);
  }

  static void add_script(const std::string& path, env::Snapshot& made) {
    const env::ScriptFacts script = env::read_script(path);
    add_options(script.hyperparameters, made);
    env::SectionFacts& environment = made[Section::kEnvironment];
    environment.collected = true;
    for (const auto& [name, value] : script.environment)
      environment.values[name] = value;
    for (const std::string& note : script.notes)
      environment.missing.push_back(note);
  }

  // Weights, batches and draws are lists beside the values of their sections.
  static std::int64_t recorded(const env::Snapshot& made, Section section) {
    const auto count = [](const auto& all) {
      return static_cast<std::int64_t>(all.size());
    };
    const std::int64_t values = count(made[section].values);
    switch (section) {
      case Section::kWeights:
        return values + count(made.weights);
      case Section::kData:
        return values + count(made.batches);
      case Section::kRandom:
        return values + made.draw_count;
      default:
        return values;
    }
  }

  void write(const env::Snapshot& made) const {
    const std::string text = env::to_json(made);
    AtomicFile file(out_ == "-" ? "/dev/stdout" : out_);
    file.write(text);
    file.commit();
    if (quiet_ || out_ == "-") return;
    std::string line = out_ + ":";
    for (std::size_t i = 0; i < env::kSectionNames.size(); ++i) {
      const env::SectionFacts& facts = made.sections[i];
      if (!facts.collected) continue;
      line += " " + std::string(env::kSectionNames[i]) + " " +
              human_count(recorded(made, static_cast<Section>(i)));
    }
    print_text(line + "\n");
    for (std::size_t i = 0; i < env::kSectionNames.size(); ++i)
      for (const std::string& why : made.sections[i].missing)
        print_text("not in it, " + std::string(env::kSectionNames[i]) + ": " +
                   printable(why) + "\n");
  }

  std::string out_;
  std::vector<std::string> scripts_, configs_, inits_, command_;
  bool all_ = false, static_ = false, quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_env_snapshot_command() {
  return std::make_unique<EnvSnapshotCommand>();
}

}  // namespace assay
