// Commands that are groups of commands: parsing, messages, help, completion.
#include "assay/cli/args.h"

#include <gmock/gmock.h>

#include "assay/base/error.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the commands below saw, in the order they ran.
std::vector<std::string> seen;

class Fake : public Command {
 public:
  explicit Fake(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::string summary() const override { return "a fake " + name_; }
  std::string examples() const override { return "  assay " + name_ + " x\n"; }
  void declare(Args& args) override {
    args.positionals("SRC", "sources", &sources_);
    args.option("-o,--out", "FILE", "where to", &out_, Completes::kPath);
  }
  int run() override {
    seen.push_back(name_);
    for (const std::string& source : sources_) seen.push_back(source);
    seen.push_back("-o " + out_);
    return 7;
  }

 private:
  std::string name_, out_;
  std::vector<std::string> sources_;
};

std::vector<std::unique_ptr<Command>> commands() {
  std::vector<std::unique_ptr<Command>> members;
  members.push_back(std::make_unique<Fake>("scan"));
  members.push_back(std::make_unique<Fake>("check"));
  std::vector<std::unique_ptr<Command>> all;
  all.push_back(std::make_unique<Fake>("compare"));
  all.push_back(make_command_group("api", "the group", std::move(members)));
  std::vector<std::unique_ptr<Command>> listed;
  listed.push_back(std::make_unique<Fake>("add"));
  listed.push_back(std::make_unique<Fake>("list"));
  all.push_back(make_command_group("log", "a group that lists",
                                   std::move(listed), "list"));
  return all;
}

int run(const std::vector<std::string>& arguments) {
  seen.clear();
  return run_command_line(arguments, commands());
}

std::string error_of(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(arguments), 2);
  EXPECT_TRUE(seen.empty());
  return testing::internal::GetCapturedStderr();
}

std::string help_of(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run(arguments), 0);
  EXPECT_TRUE(seen.empty());
  return testing::internal::GetCapturedStdout();
}

TEST(CommandGroup, RunsTheMemberAndNothingElse) {
  EXPECT_EQ(run({"api", "scan", "a", "b", "-o", "f"}), 7);
  EXPECT_THAT(seen, ElementsAre("scan", "a", "b", "-o f"));
  EXPECT_EQ(run({"compare", "a"}), 7);
  EXPECT_THAT(seen, ElementsAre("compare", "a", "-o "));
}

TEST(CommandGroup, RunsItsDefaultVerbWhereNoneIsNamed) {
  EXPECT_EQ(run({"log"}), 7);
  EXPECT_THAT(seen, ElementsAre("list", "-o "));
  EXPECT_EQ(run({"log", "add", "x"}), 7);
  EXPECT_THAT(seen, ElementsAre("add", "x", "-o "));
  EXPECT_THAT(error_of({"log", "lst"}), HasSubstr("did you mean list?"));
  EXPECT_THAT(error_of({"log", "--frobnicate"}), HasSubstr("assay log --help"));
}

TEST(CommandGroup, NamesOfCommandsAreWordsAfterTheFirst) {
  EXPECT_EQ(run({"api", "scan", "check", "api", "compare"}), 7);
  EXPECT_THAT(seen, ElementsAre("scan", "check", "api", "compare", "-o "));
}

TEST(CommandGroup, TakesTheGlobalThreadsAnywhere) {
  EXPECT_EQ(run({"api", "scan", "a", "--threads", "1"}), 7);
  EXPECT_EQ(run({"--threads", "1", "api", "scan", "a"}), 7);
}

TEST(CommandGroup, SaysWhereAWrongWordStands) {
  const std::string near = error_of({"api", "scn", "a"});
  EXPECT_THAT(near, HasSubstr("unknown command 'scn', did you mean scan?"));
  EXPECT_THAT(near, HasSubstr("see assay api --help"));
  EXPECT_THAT(error_of({"ap"}), HasSubstr("did you mean api?"));
  EXPECT_THAT(error_of({"api"}), HasSubstr("see assay api --help"));
  EXPECT_THAT(error_of({"api", "scan"}), HasSubstr("SRC"));
}

TEST(CommandGroup, HelpShowsMembersAndTheirExamples) {
  const std::string group = help_of({"api", "--help"});
  EXPECT_THAT(group, HasSubstr("a fake scan"));
  EXPECT_THAT(group, HasSubstr("assay check x"));
  const std::string member = help_of({"api", "scan", "--help"});
  EXPECT_THAT(member, HasSubstr("assay scan x"));
  EXPECT_THAT(member, HasSubstr("--out"));
}

TEST(CommandGroup, IsDescribedWithItsMembers) {
  const std::vector<CompletionCommand> all = describe(commands());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[0].subcommands.empty());
  ASSERT_EQ(all[1].subcommands.size(), 2u);
  EXPECT_EQ(all[1].subcommands[0].name, "scan");
  EXPECT_THAT(all[1].subcommands[0].options[0].names,
              ElementsAre("-o", "--out"));
  EXPECT_THAT(all[1].subcommands[0].positionals, ElementsAre(Completes::kPath));
}

}  // namespace
}  // namespace assay
