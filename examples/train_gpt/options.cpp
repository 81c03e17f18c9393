#include "examples/train_gpt/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "assay/base/text.h"

namespace assay::train_gpt {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;

constexpr const char* kExamples =
    "Examples:\n"
    "  train_gpt\n"
    "  train_gpt --recipe mxfp8 --steps 1000 --log run.jsonl\n"
    "  train_gpt --recipe block --save gpt.ckpt --save-every 100\n"
    "  train_gpt --recipe block --save gpt.ckpt --resume gpt.ckpt\n"
    "  train_gpt --layers 2 --hidden 128 --heads 4 --kv-heads 2\n"
    "  train_gpt --experts 8 --topk 2 --ffn 512\n"
    "  train_gpt --seq 512 --recompute full\n"
    "  mpirun -np 2 train_gpt --tp 2 --sp\n"
    "Exit codes: 0 done, 1 NaN or infinity, 2 usage, 3 unreadable file,\n"
    "130 interrupted.";

const std::map<std::string, std::optional<te::Recipe>>& recipes() {
  static const std::map<std::string, std::optional<te::Recipe>> all = {
      {"fp32", std::nullopt},
      {"bf16", std::nullopt},
      {"delayed", te::recipe::DelayedScaling{}},
      {"current", te::recipe::Float8CurrentScaling{}},
      {"block", te::recipe::Float8BlockScaling{}},
      {"mxfp8", te::recipe::MXFP8BlockScaling{}},
      {"nvfp4", te::recipe::NVFP4BlockScaling{}}};
  return all;
}

std::vector<std::string> recipe_names() {
  return {"fp32", "bf16", "delayed", "current", "block", "mxfp8", "nvfp4"};
}

class Declarations {
 public:
  explicit Declarations(CLI::App* app) : app_(app) {}

  void count(const char* name, std::int64_t* value, std::int64_t least,
             const char* help) {
    app_->add_option(name, *value, help)
        ->type_name("N")
        ->check(CLI::Range(least, kMost).description(""));
  }
  void number(const char* name, double* value, double least, double most,
              const char* help) {
    app_->add_option(name, *value, help)
        ->type_name("X")
        ->check(CLI::Range(least, most).description(""));
  }
  void choice(const char* name, std::string* value,
              const std::vector<std::string>& choices, const char* help) {
    app_->add_option(name, *value, help)->check(CLI::IsMember(choices));
  }
  void file(const char* name, std::string* value, const char* help) {
    app_->add_option(name, *value, help)->type_name("FILE");
  }
  void flag(const char* name, bool* value, const char* help) {
    app_->add_flag(name, *value, help);
  }

 private:
  CLI::App* app_;
};

void declare(CLI::App& app, Options& o) {
  app.option_defaults()->always_capture_default();
  // What is given again counts: a command is changed by adding to its end.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  Declarations d(&app);
  d.choice("--recipe", &o.recipe, recipe_names(), "precision of the GEMMs");
  d.count("--layers", &o.layers, 1, "transformer layers");
  d.count("--hidden", &o.hidden, 1, "width of the model");
  d.count("--heads", &o.heads, 1, "attention heads");
  d.count("--kv-heads", &o.kv_heads, 0, "heads of keys, values (0: --heads)");
  d.count("--ffn", &o.ffn, 0, "width of the MLP (0: 4 x --hidden)");
  d.count("--experts", &o.experts, 0, "experts of each MLP (0: dense)");
  d.count("--topk", &o.topk, 1, "experts that a token goes to");
  d.number("--dropout", &o.dropout, 0, 0.99, "of attention and residuals");
  d.file("--text", &o.text, "what to train on, as bytes");
  d.count("--seq", &o.seq, 1, "bytes a sequence");
  d.count("--batch", &o.batch, 1, "sequences a step");
  d.count("--microbatches", &o.microbatches, 1, "parts of a step");
  d.count("--steps", &o.steps, 1, "steps of the whole run");
  d.number("--lr", &o.lr, 0, 1e3, "peak; cosine to a tenth of it");
  d.count("--warmup", &o.warmup, 0,
          "steps of warm-up (not given: at most a tenth)");
  d.number("--clip", &o.clip, 0, 1e9, "largest gradient norm (0: any)");
  app.add_option("--seed", o.seed, "of weights, data, dropout")->type_name("N");
  d.choice("--recompute", &o.recompute, {"none", "selective", "full"},
           "activations: kept, attention or layers computed again");
  app.add_option("--tp", o.tp, "ranks of the tensor parallel group")
      ->type_name("N")
      ->check(CLI::Range(1, 1024).description(""));
  d.flag("--sp", &o.sp, "sequence parallelism within it");
  app.add_option("--threads", o.threads, "0: all cores")
      ->type_name("N")
      ->check(CLI::Range(0, 4096).description(""));
  d.file("--resume", &o.resume, "checkpoint to go on from");
  d.file("--save", &o.save, "checkpoint to write at the end or when stopped");
  d.count("--save-every", &o.save_every, 0, "and every N steps (0: not)");
  d.file("--log", &o.log, "one JSON line a step, appended");
  d.flag("--quiet", &o.quiet, "print the result only");
}

void set_dependent_defaults(const CLI::App& app, Options& o) {
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  if (o.ffn == 0) o.ffn = 4 * o.hidden;
  if (o.text.empty()) o.text = ASSAY_GPT_TEXT;
  if (app.count("--warmup") == 0) o.warmup = std::min(o.warmup, o.steps / 10);
}

// The first thing that does not fit, "" where everything does.
std::string misfit(const Options& o) {
  const auto divides = [](std::int64_t part, const char* part_name,
                          std::int64_t whole, const char* whole_name) {
    return whole % part == 0 ? ""
                             : fmt::format(
                                   "{}: {}, expected a divisor of {} "
                                   "({})",
                                   part_name, part, whole_name, whole);
  };
  for (const std::string& found :
       {divides(o.heads, "--heads", o.hidden, "--hidden"),
        divides(o.kv_heads, "--kv-heads", o.heads, "--heads"),
        divides(o.microbatches, "--microbatches", o.batch, "--batch"),
        divides(o.tp, "--tp", o.kv_heads, "--kv-heads"),
        divides(o.tp, "--tp", o.experts > 0 ? o.experts : o.ffn,
                o.experts > 0 ? "--experts" : "--ffn"),
        divides(o.sp ? o.tp : 1, "--tp", o.seq, "--seq")})
    if (!found.empty()) return found;
  if (o.hidden / o.heads % 2 != 0)
    return fmt::format("--heads: {} heads of {}, expected heads of even width",
                       o.heads, o.hidden / o.heads);
  if (o.experts > 0 && o.topk > o.experts)
    return fmt::format("--topk: {}, expected at most --experts ({})", o.topk,
                       o.experts);
  if (o.experts > 0 && o.tp > 1 && !o.sp)
    return "--experts: given with --tp, expected --sp with them";
  if (o.sp && o.tp == 1) return "--sp: given, expected --tp above 1 with it";
  if (o.warmup >= o.steps)
    return fmt::format("--warmup: {}, expected less than --steps ({})",
                       o.warmup, o.steps);
  if (o.save_every > 0 && o.save.empty())
    return "--save-every: given, expected --save with it";
  return "";
}

std::string one_line(const CLI::App& app, const CLI::ParseError& error,
                     const std::vector<std::string>& arguments) {
  std::string what = error.what();
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    names.push_back(option->get_name());
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    if (!name.starts_with("--") || std::ranges::count(names, name)) continue;
    const std::string near = closest(name, names);
    what = printable(name) + ": no such option" +
           (near.empty() ? "" : ", did you mean " + near + "?");
    break;
  }
  std::ranges::replace(what, '\n', ' ');
  return what + " (see train_gpt --help)";
}

}  // namespace

DType Options::dtype() const {
  return recipe == "fp32" ? DType::kF32 : DType::kBF16;
}

std::optional<te::Recipe> Options::quantization() const {
  return recipes().at(recipe);
}

Recompute Options::recompute_mode() const {
  if (recompute == "full") return Recompute::kFull;
  return recompute == "selective" ? Recompute::kSelective : Recompute::kNone;
}

std::vector<std::pair<std::string, std::string>> Options::signature() const {
  const auto shown = [](const auto& value) { return fmt::format("{}", value); };
  return {{"--recipe", recipe},
          {"--layers", shown(layers)},
          {"--hidden", shown(hidden)},
          {"--heads", shown(heads)},
          {"--kv-heads", shown(kv_heads)},
          {"--ffn", shown(ffn)},
          {"--experts", shown(experts)},
          {"--topk", shown(topk)},
          {"--dropout", shown(dropout)},
          {"--seq", shown(seq)},
          {"--batch", shown(batch)},
          {"--microbatches", shown(microbatches)},
          {"--steps", shown(steps)},
          {"--lr", shown(lr)},
          {"--warmup", shown(warmup)},
          {"--clip", shown(clip)},
          {"--seed", shown(seed)},
          {"--tp", shown(tp)},
          {"--sp", shown(sp)}};
}

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  CLI::App app{"Trains a small GPT on the bytes of a text, in any recipe.",
               "train_gpt"};
  declare(app, line.options);
  app.footer(kExamples);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    const bool help = error.get_exit_code() == 0;
    line.exit_code = help ? 0 : 2;
    line.message = help ? app.help() : one_line(app, error, arguments);
    return line;
  }
  set_dependent_defaults(app, line.options);
  if (const std::string found = misfit(line.options); !found.empty()) {
    line.exit_code = 2;
    line.message = found + " (see train_gpt --help)";
  }
  return line;
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-./=:,+%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos)
    return word;
  std::string quoted = "'";
  for (const char c : word)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string command_to_go_on(const std::vector<std::string>& arguments,
                             int ranks) {
  std::string command =
      ranks > 1 ? fmt::format("mpirun -np {} train_gpt", ranks) : "train_gpt";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--resume") {
      ++i;  // its value
    } else if (!arguments[i].starts_with("--resume=")) {
      command += " " + shell_word(arguments[i]);
    }
  }
  return command;
}

}  // namespace assay::train_gpt
