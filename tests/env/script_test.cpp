// The reader of launch scripts: what a shell would pass, without a shell.
#include "assay/env/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/base/error.h"

namespace assay::env {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ScriptFacts read(const std::string& text) {
  return parse_script(text, "dir/run.sh");
}

std::string option(const ScriptFacts& facts, const std::string& key) {
  const auto found = facts.hyperparameters.find(key);
  if (found == facts.hyperparameters.end()) return "(none)";
  const Value& value = found->second;
  if (value.kind == Kind::kUnknown) return "?" + value.text;
  return value.kind == Kind::kFlag ? "(flag)" : value.text;
}

std::string variable(const ScriptFacts& facts, const std::string& name) {
  const auto found = facts.environment.find(name);
  if (found == facts.environment.end()) return "(none)";
  const bool unknown = found->second.kind == Kind::kUnknown;
  return (unknown ? "?" : "") + found->second.text;
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kRefused);
    return error.what();
  }
  return "";
}

TEST(Script, OptionsOfACommand) {
  const ScriptFacts facts = read(
      "python -u train.py --lr 1e-4 --Hidden-Size=4096 --bf16 \\\n"
      "  --betas 0.9 0.95 -v --offset -1 model.depth=3 data.bin\n");
  EXPECT_EQ(option(facts, "lr"), "1e-4");
  EXPECT_EQ(option(facts, "hidden_size"), "4096");
  EXPECT_EQ(option(facts, "bf16"), "(flag)");
  EXPECT_EQ(option(facts, "betas"), "0.9 0.95");
  EXPECT_EQ(option(facts, "v"), "(flag)");
  EXPECT_EQ(option(facts, "program"), "train.py");
  EXPECT_EQ(option(facts, "u"), "(none)");
  EXPECT_EQ(facts.hyperparameters.at("lr").from, "run.sh:1");
  EXPECT_EQ(option(facts, "model.depth"), "3");
  EXPECT_EQ(option(facts, "argument.0"), "data.bin");
}

TEST(Script, TheLauncherHasItsOwnOptions) {
  const ScriptFacts facts =
      read("torchrun --nproc_per_node=8 --standalone train.py --seed 1\n");
  EXPECT_EQ(option(facts, "launcher.nproc_per_node"), "8");
  EXPECT_EQ(option(facts, "seed"), "1");
  const ScriptFacts module =
      read("python -m torch.distributed.run --nnodes 2 pretrain.py --tp 4\n");
  EXPECT_EQ(option(module, "launcher.nnodes"), "2");
  EXPECT_EQ(option(module, "program"), "pretrain.py");
  EXPECT_EQ(option(module, "tp"), "4");
}

TEST(Script, QuotesAndComments) {
  const ScriptFacts facts = read(
      "A='single $X \"q\"'   # not --lr 9\n"
      "B=\"double $A \\\" end\"\n"
      "python t.py --a \"$A\" --b \"$B\" --c pre'mid'\"post\" --d a\\ b "
      "--e '' # --f 1\n");
  EXPECT_EQ(option(facts, "a"), "single $X \"q\"");
  EXPECT_EQ(option(facts, "b"), "double single $X \"q\" \" end");
  EXPECT_EQ(option(facts, "c"), "premidpost");
  EXPECT_EQ(option(facts, "d"), "a b");
  EXPECT_EQ(option(facts, "e"), "");
  EXPECT_EQ(option(facts, "f"), "(none)");
  EXPECT_EQ(option(facts, "lr"), "(none)");
}

TEST(Script, VariablesAreExpandedAsAShellSplitsThem) {
  const ScriptFacts facts = read(
      "SIZE=4096\n"
      "ARGS=\"--hidden-size ${SIZE} \\\n  --layers 2\"\n"
      "ARGS+=\" --swiglu\"\n"
      "LIST=(--seed 7 # the seed\n  --name 'two words')\n"
      "LIST+=(--extra)\n"
      "python t.py $ARGS \"${LIST[@]}\" --whole \"$ARGS\"\n");
  EXPECT_EQ(option(facts, "hidden_size"), "4096");
  EXPECT_EQ(option(facts, "layers"), "2");
  EXPECT_EQ(option(facts, "swiglu"), "(flag)");
  EXPECT_EQ(option(facts, "seed"), "7");
  EXPECT_EQ(option(facts, "name"), "two words");
  EXPECT_EQ(option(facts, "extra"), "(flag)");
  EXPECT_EQ(option(facts, "whole"), "--hidden-size 4096   --layers 2 --swiglu");
  // What something expands is not a setting of its own.
  EXPECT_EQ(option(facts, "size"), "(none)");
}

TEST(Script, ArithmeticOfKnownNumbers) {
  const ScriptFacts facts = read(
      "N=8\nM=2\n"
      "python t.py --a $((N * M + 1)) --b $(( ($N-3) % ${M} )) --c $((N/0)) "
      "--d $((N*X)) --e $((9223372036854775807 + N))\n");
  EXPECT_EQ(option(facts, "a"), "17");
  EXPECT_EQ(option(facts, "b"), "1");
  EXPECT_EQ(option(facts, "c"), "?$((N/0))");
  EXPECT_EQ(option(facts, "d"), "?$((N*X))");
  EXPECT_EQ(option(facts, "e")[0], '?');
}

TEST(Script, WhatOnlyARunningShellKnowsIsUnknown) {
  const ScriptFacts facts = read(
      "KNOWN=1\n"
      "python t.py --host $(hostname) --gpus ${GPUS:-8} --user $USER "
      "--first $1 --ticks `date` --known ${KNOWN:-2} --cut ${KNOWN%x}\n");
  EXPECT_EQ(option(facts, "host"), "?$(hostname)");
  EXPECT_EQ(option(facts, "gpus"), "?${GPUS:-8}");
  EXPECT_EQ(option(facts, "user"), "?$USER");
  EXPECT_EQ(option(facts, "first"), "?$1");
  EXPECT_EQ(option(facts, "ticks"), "?`date`");
  EXPECT_EQ(option(facts, "known"), "1");
  EXPECT_EQ(option(facts, "cut"), "?${KNOWN%x}");
}

TEST(Script, WhatABranchAssignsIsUnknown) {
  const ScriptFacts facts = read(
      "A=1\nB=1\nC=1\nD=1\n"
      "if [ -n \"$X\" ]; then\n  A=2\n  B=1\nfi\n"
      "[ -z \"$Y\" ] && C=3\n"
      "for i in 1 2; do E=$i; done\n"
      "f() { D=4; }\n"
      "python t.py --a $A --b $B --c $C --d $D --e $E\n");
  EXPECT_EQ(option(facts, "a"), "?2");
  EXPECT_EQ(option(facts, "b"), "1");
  EXPECT_EQ(option(facts, "c"), "?3");
  EXPECT_EQ(option(facts, "d"), "?4");
  EXPECT_EQ(option(facts, "e")[0], '?');
}

TEST(Script, CommandsOfTwoBranchesAgreeOrAreUnknown) {
  const ScriptFacts facts = read(
      "if [ $1 = a ]; then\n  python t.py --lr 1 --seed 2 --fp8\n"
      "else\n  python t.py --lr 3 --seed 2\nfi\n");
  EXPECT_EQ(option(facts, "seed"), "2");
  EXPECT_EQ(option(facts, "lr"), "?1 or 3 (run.sh:4)");
  EXPECT_EQ(option(facts, "fp8"), "?given or not given");
}

TEST(Script, TheLastProgramHasTheNames) {
  const ScriptFacts facts =
      read("python tools/preprocess.py --workers 4\npython train.py --lr 1\n");
  EXPECT_EQ(option(facts, "preprocess.workers"), "4");
  EXPECT_EQ(option(facts, "lr"), "1");
}

TEST(Script, ExportsAreVariables) {
  const ScriptFacts facts = read(
      "export A=1 B='two words'\nC=3\nexport C\n"
      "declare -x D=4\nexport E=$(nproc)\nexport F=1\nunset F\n"
      "G=5 H=$C python t.py\nexport HOME\n");
  EXPECT_EQ(variable(facts, "A"), "1");
  EXPECT_EQ(variable(facts, "B"), "two words");
  EXPECT_EQ(variable(facts, "C"), "3");
  EXPECT_EQ(variable(facts, "D"), "4");
  EXPECT_EQ(variable(facts, "E"), "?$(nproc)");
  EXPECT_EQ(variable(facts, "F"), "(none)");
  EXPECT_EQ(variable(facts, "G"), "5");
  EXPECT_EQ(variable(facts, "H"), "3");
  EXPECT_THAT(facts.notes,
              ElementsAre("run.sh:9: exports HOME, which it does not set"));
}

TEST(Script, HereDocumentsRedirectionsAndOtherCommands) {
  const ScriptFacts facts = read(
      "cat > ds.json <<EOF\n{\"lr\": \"--lr 9\"}\n  EOF\nEOF\n"
      "cat <<-'END'\n\tpython t.py --lr 8\n\tEND\n"
      "cp train.py /tmp/train.py\necho python t.py; mkdir -p logs\n"
      "ls *.py\n"
      "nohup python t.py --lr 1 > log.txt 2>&1 < /dev/null &\n"
      "source env.sh\n");
  EXPECT_EQ(option(facts, "lr"), "1");
  EXPECT_EQ(option(facts, "p"), "(none)");
  EXPECT_EQ(option(facts, "argument.0"), "(none)");
  ASSERT_EQ(facts.notes.size(), 1U);
  EXPECT_THAT(facts.notes[0], HasSubstr("reads env.sh, which was not read"));
}

TEST(Script, NothingIsExecuted) {
  const ScriptFacts facts = read(
      "X=$(touch /tmp/assay_env_must_not_exist)\n"
      "`touch /tmp/assay_env_must_not_exist`\n"
      "python t.py --x $X\n");
  EXPECT_EQ(option(facts, "x")[0], '?');
}

TEST(Script, AFileOfSettingsHasTheOptionsOfItsVariables) {
  const ScriptFacts facts =
      read("MODEL_ARGS=(\n --num-layers 4\n --swiglu\n)\nSEED=3\n");
  EXPECT_EQ(option(facts, "num_layers"), "4");
  EXPECT_EQ(option(facts, "swiglu"), "(flag)");
  EXPECT_EQ(option(facts, "seed"), "3");
}

TEST(Script, LinesOfWindows) {
  const ScriptFacts facts = read("A=1\r\npython t.py --a $A \\\r\n --b 2\r\n");
  EXPECT_EQ(option(facts, "a"), "1");
  EXPECT_EQ(option(facts, "b"), "2");
}

TEST(Script, WhatDoesNotEndIsRefusedWithItsLine) {
  EXPECT_EQ(refusal("A=1\nB='x\n\n"),
            "dir/run.sh:2: a quote (') that is not closed");
  EXPECT_EQ(refusal("A=1\n\nB=\"x\n"),
            "dir/run.sh:3: a quote (\") that is not closed");
  EXPECT_EQ(refusal("A=$(date"), "dir/run.sh:1: a $( that is not closed");
  EXPECT_EQ(refusal("A=${B"), "dir/run.sh:1: a ${ that is not closed");
  EXPECT_EQ(refusal("A=`date"), "dir/run.sh:1: a ` that is not closed");
  EXPECT_EQ(refusal("A=(1 2\n"),
            "dir/run.sh:1: an array '(' that is not "
            "closed");
  EXPECT_EQ(refusal("cat <<E\nx\n"),
            "dir/run.sh:1: a here-document that is not ended by 'E'");
}

TEST(Script, ExponentialExpansionIsRefused) {
  std::string text = "A0=xxxxxxxxxx\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "${A" + std::to_string(i - 1) + "}";
    text += "A" + std::to_string(i) + "=" + before + before + "\n";
  }
  EXPECT_THAT(refusal(text), HasSubstr("expands to more than 1 MiB"));
}

TEST(Script, WhatRunsElsewhereIsUnknown) {
  for (const char* body :
       {"f() { LR=1; }\nLR=7\nf\n", "f () {\n LR=1\n}\nLR=7\nf x\n",
        "function f { LR=1; }\nLR=7\nf\n", "LR=7\nprintf -v LR 1\n",
        "LR=7\nread -r LR\n", "LR=7\nlet LR=1\n", "LR=7\nlet LR+=1\n"}) {
    const ScriptFacts facts =
        read(std::string(body) + "python train.py --lr $LR\n");
    EXPECT_EQ(option(facts, "lr"), "?7") << body;
  }
  const ScriptFacts facts = read("eval $(cat x)\npython train.py --lr 7\n");
  ASSERT_EQ(facts.notes.size(), 1U);
  EXPECT_THAT(facts.notes[0], HasSubstr("run.sh:1: eval"));
  // One that is not called changes nothing.
  EXPECT_EQ(option(read("f() { LR=1; }\nLR=7\npython t.py --lr $LR\n"), "lr"),
            "7");
}

TEST(Script, AnOptionGivenAgainIsNotForgotten) {
  const ScriptFacts facts =
      read("python t.py --data a --lr 1 --data b --data c --lr 1\n");
  EXPECT_EQ(option(facts, "data"), "c");
  EXPECT_EQ(option(facts, "data.before"), "a b");
  EXPECT_EQ(option(facts, "lr"), "1");
  EXPECT_EQ(option(facts, "lr.before"), "(none)");
}

}  // namespace
}  // namespace assay::env
