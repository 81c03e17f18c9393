#include "assay/conform/protocol.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay::conform {
namespace {

// Members of one message, with errors that name it and the field.
class Fields {
 public:
  Fields(const Value& message, std::string_view type) : type_(type) {
    if (!message.is_object()) fail("is no object");
    message_ = &message.object();
    const std::string& found = text("type");
    if (found != type) fail("type: " + printable(found));
  }

  const Value* find(const char* name) const {
    const auto found = message_->find(name);
    return found == message_->end() ? nullptr : &found->second;
  }
  const Value& at(const char* name) const {
    const Value* found = find(name);
    if (!found) fail(fmt::format("{} is missing", name));
    return *found;
  }
  const std::string& text(const char* name) const {
    const Value& value = at(name);
    if (!value.is_text()) wrong(name, value, "a text");
    return value.text();
  }
  std::string text_or(const char* name, const char* absent) const {
    return find(name) ? text(name) : absent;
  }
  std::int64_t integer(const char* name) const {
    const Value& value = at(name);
    if (!value.is_integer()) wrong(name, value, "an integer");
    return value.integer();
  }
  double number_or(const char* name, double absent) const {
    const Value* value = find(name);
    if (!value) return absent;
    if (!value->is_number() || value->number() < 0)
      wrong(name, *value, "a number that is not negative");
    return value->number();
  }
  Object object_or_empty(const char* name) const {
    const Value* value = find(name);
    if (!value) return {};
    if (!value->is_object()) wrong(name, *value, "an object");
    return value->object();
  }
  std::vector<std::string> texts(const char* name) const {
    const Value* value = find(name);
    if (!value) return {};
    return texts_of(*value, name);
  }
  std::vector<std::string> texts_of(const Value& value,
                                    const std::string& name) const {
    if (!value.is_list()) wrong(name, value, "a list");
    std::vector<std::string> all;
    for (const Value& item : value.list()) {
      if (!item.is_text()) wrong(name, item, "texts");
      all.push_back(item.text());
    }
    return all;
  }

  [[noreturn]] void wrong(std::string_view name, const Value& value,
                          std::string_view wanted) const {
    fail(fmt::format("{}: {}, expected {}", name, shown(value), wanted));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Code::kRefused, fmt::format("worker's {}: {}", type_, what));
  }

 private:
  static std::string shown(const Value& value) {
    const std::string text = to_json(value);
    return printable(text.size() > 80 ? text.substr(0, 80) + "..." : text);
  }
  std::string_view type_;
  const Object* message_ = nullptr;
};

List texts_of(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

constexpr double kMostBytes = 1e18;
constexpr std::string_view kStatus[] = {"ok", "unsupported", "error"};

RunAnswer::Status parse_status(const Fields& fields) {
  const std::string& text = fields.text("status");
  for (std::size_t i = 0; i < std::size(kStatus); ++i)
    if (kStatus[i] == text) return static_cast<RunAnswer::Status>(i);
  fields.wrong("status", text, "ok, unsupported or error");
}

}  // namespace

std::string output_file(const std::string& outputs, int rank) {
  return fmt::format("{}.rank{}.safetensors", outputs, rank);
}

std::string hello_request() {
  return to_json(Object{{"type", "hello"}, {"protocol", kProtocolVersion}});
}

std::string bye_request() { return to_json(Object{{"type", "bye"}}); }

std::string format_hello(const Hello& hello) {
  Object modules;
  for (const auto& [name, module] : hello.modules) {
    Object facts{{"adapter", module.adapter}};
    if (module.has_api) facts["api"] = texts_of(module.api);
    modules[name] = std::move(facts);
  }
  return to_json(Object{{"type", "hello"},
                        {"protocol", kProtocolVersion},
                        {"implementation", hello.implementation},
                        {"version", hello.version},
                        {"device", hello.device},
                        {"launcher", hello.launcher},
                        {"modules", modules},
                        {"environment", hello.environment}});
}

Hello parse_hello(std::string_view line) {
  const Value message = parse_json(line, "worker's hello");
  const Fields fields(message, "hello");
  const std::int64_t protocol = fields.integer("protocol");
  if (protocol != kProtocolVersion)
    fields.wrong("protocol", protocol, std::to_string(kProtocolVersion));
  Hello hello;
  hello.implementation = fields.text("implementation");
  hello.version = fields.text("version");
  hello.device = fields.text("device");
  hello.launcher = fields.text_or("launcher", "");
  if (hello.launcher != "" && hello.launcher != "mpirun" &&
      hello.launcher != "self")
    fields.wrong("launcher", hello.launcher, "mpirun, self or nothing");
  hello.environment = fields.object_or_empty("environment");
  for (const auto& [name, facts] : fields.object_or_empty("modules")) {
    const Value* adapter = facts.find("adapter");
    if (!adapter || !adapter->is_integer() || adapter->integer() < 0 ||
        adapter->integer() > INT32_MAX)
      fields.fail(
          fmt::format("modules.{}.adapter: expected an integer from 0 "
                      "to {}",
                      printable(name), INT32_MAX));
    Hello::Module& module = hello.modules[name];
    module.adapter = static_cast<int>(adapter->integer());
    if (const Value* api = facts.find("api")) {
      module.has_api = true;
      module.api = fields.texts_of(*api, "modules." + printable(name) + ".api");
    }
  }
  return hello;
}

std::string format_request(const RunRequest& request) {
  const Case& c = request.subject;
  return to_json(Object{{"type", "run"},
                        {"id", request.id},
                        {"module", c.module},
                        {"case", c.id},
                        {"parameters", c.parameters},
                        {"steps", c.steps},
                        {"seed", static_cast<std::int64_t>(c.seed & INT64_MAX)},
                        {"strided", texts_of(request.strided)},
                        {"inputs", request.inputs},
                        {"outputs", request.outputs}});
}

RunRequest parse_request(const Value& message) {
  const Fields fields(message, "run");
  RunRequest request;
  request.id = fields.integer("id");
  request.subject.module = fields.text("module");
  request.subject.id = fields.text("case");
  request.subject.parameters = fields.object_or_empty("parameters");
  const std::int64_t steps = fields.integer("steps");
  if (steps < 1 || steps > 1000)
    fields.wrong("steps", steps, "a number from 1 to 1000");
  request.subject.steps = static_cast<int>(steps);
  request.subject.seed = static_cast<std::uint64_t>(fields.integer("seed"));
  request.strided = fields.texts("strided");
  request.inputs = fields.text("inputs");
  request.outputs = fields.text("outputs");
  return request;
}

std::string format_answer(const RunAnswer& answer) {
  Object message{{"type", "result"},
                 {"id", answer.id},
                 {"status", kStatus[static_cast<std::size_t>(answer.status)]}};
  if (answer.status == RunAnswer::Status::kOk) {
    message["contract"] = answer.contract;
    message["seconds"] = answer.seconds;
    message["peak_bytes"] = answer.peak_bytes;
  } else {
    message["error"] = answer.error;
    message["message"] = answer.message;
  }
  return to_json(message);
}

RunAnswer parse_answer(std::string_view line) {
  const Value message = parse_json(line, "worker's result");
  const Fields fields(message, "result");
  RunAnswer answer;
  answer.id = fields.integer("id");
  answer.status = parse_status(fields);
  answer.contract = fields.object_or_empty("contract");
  answer.seconds = fields.number_or("seconds", 0);
  const double peak = fields.number_or("peak_bytes", 0);
  if (peak > kMostBytes) fields.fail("peak_bytes: more than there can be");
  answer.peak_bytes = static_cast<std::int64_t>(peak);
  answer.error = fields.text_or("error", "");
  answer.message = fields.text_or("message", "");
  return answer;
}

}  // namespace assay::conform
