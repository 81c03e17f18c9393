#include "assay/conform/manifest.h"

#include <fmt/format.h>

#include <climits>
#include <cstdint>
#include <iterator>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/base/text.h"
#include "assay/conform/case_json.h"
#include "assay/conform/report/run_fields.h"
#include "assay/conform/value_shown.h"

namespace assay::conform {
namespace {

constexpr std::string_view kStatus[] = {"ok", "unsupported", "refused"};

Value ref_to_json(const ObjectRef& ref) {
  return Object{{"hash", ref.hash}, {"bytes", ref.bytes}};
}

ObjectRef ref_from_json(const RunFields& fields) {
  ObjectRef ref;
  ref.hash = fields.text("hash");
  if (!is_hash(ref.hash))
    fields.wrong("hash", printable(ref.hash) + ", expected 32 hex digits");
  ref.bytes = fields.integer("bytes", 0, INT64_MAX);
  return ref;
}

RunAnswer::Status status_from(const RunFields& fields) {
  const std::string text = fields.text("status");
  for (std::size_t i = 0; i < std::size(kStatus); ++i)
    if (kStatus[i] == text) return static_cast<RunAnswer::Status>(i);
  fields.wrong("status",
               printable(text) + ", expected ok, unsupported or refused");
}

Object body_of(const Manifest& m) {
  List outputs;
  for (const ObjectRef& ref : m.outputs) outputs.push_back(ref_to_json(ref));
  return {{"subject", case_to_json(m.subject)},
          {"spec", m.spec},
          {"adapter", m.adapter},
          {"implementation", m.implementation},
          {"version", m.version},
          {"device", m.device},
          {"environment", m.environment},
          {"status", kStatus[static_cast<std::size_t>(m.status)]},
          {"error", m.error},
          {"message", m.message},
          {"contract", m.contract},
          {"inputs", ref_to_json(m.inputs)},
          {"outputs", outputs},
          {"repeats", m.repeats},
          {"seconds", m.seconds},
          {"peak_bytes", m.peak_bytes},
          {"collected", m.collected}};
}

const Value* policy_of(const Manifest& m) {
  const auto found = m.environment.find("policy");
  return found == m.environment.end() ? nullptr : &found->second;
}

// The first entry that differs.
std::string difference(const Object& golden, const Object& now) {
  const auto find = [](const Object& object, const std::string& name) {
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &found->second;
  };
  for (const Object* side : {&golden, &now})
    for (const auto& [name, value] : *side) {
      const Value* a = find(golden, name);
      const Value* b = find(now, name);
      if (!a || !b || *a != *b)
        return fmt::format("{}: golden {}, now {}", printable(name), shown(a),
                           shown(b));
    }
  return "";
}

// What both sides say, and say differently.
std::string policy_difference(const Manifest& golden, const Manifest& now) {
  const Value* a = policy_of(golden);
  const Value* b = policy_of(now);
  if (!a || !b || !a->is_object() || !b->is_object()) return "";
  for (const auto& [name, value] : a->object()) {
    const Value* other = b->find(name);
    if (other && *other != value)
      return fmt::format("policy {}: golden {}, now {}", printable(name),
                         shown(&value), shown(other));
  }
  return "";
}

std::string changed(std::string_view what, const std::string& then,
                    const std::string& now) {
  return fmt::format("{}: golden made with {}, now {}", what,
                     shortened(printable(then)), shortened(printable(now)));
}

}  // namespace

bool is_hash(std::string_view text) {
  return text.size() == 32 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string format_manifest(const Manifest& manifest) {
  const Value body = body_of(manifest);
  return to_json(Object{{"assay", "golden"},
                        {"version", 1},
                        {"hash", to_hex(hash128(to_json(body)))},
                        {"golden", body}}) +
         "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& origin) {
  const Value document = parse_json(text, origin);
  const RunFields outer(document, origin);
  if (outer.text("assay") != "golden" || outer.integer("version", 0, 1) != 1)
    outer.wrong("assay", "expected a golden of version 1");
  const Value* body = document.find("golden");
  if (!body || to_hex(hash128(to_json(*body))) != outer.text("hash"))
    outer.wrong("hash", "not that of the text: the manifest was changed");
  const RunFields fields = outer.member("golden");
  Manifest m;
  m.subject = case_from_json(fields.member("subject"));
  m.spec = fields.text("spec");
  m.adapter = static_cast<int>(fields.integer("adapter", INT_MIN, INT_MAX));
  m.implementation = fields.text("implementation");
  m.version = fields.text("version");
  m.device = fields.text("device");
  m.environment = fields.object("environment");
  m.status = status_from(fields);
  m.error = fields.text("error");
  m.message = fields.text("message");
  m.contract = fields.object("contract");
  m.inputs = ref_from_json(fields.member("inputs"));
  fields.each("outputs", [&](const RunFields& output) {
    m.outputs.push_back(ref_from_json(output));
  });
  m.repeats = fields.flag_or("repeats", false);
  m.seconds = fields.number("seconds");
  m.peak_bytes = fields.integer("peak_bytes", 0, INT64_MAX);
  m.collected = fields.text("collected");
  return m;
}

Manifest manifest_of(const Spec& spec, const Case& c, const Hello& hello) {
  Manifest m;
  m.subject = c;
  m.spec = to_hex(spec.hash);
  const auto module = hello.modules.find(spec.module);
  if (module != hello.modules.end()) m.adapter = module->second.adapter;
  m.implementation = hello.implementation;
  m.version = hello.version;
  m.device = hello.device;
  m.environment = hello.environment;
  return m;
}

std::string stale_reason(const Manifest& golden, const Manifest& now,
                         bool same_implementation) {
  if (golden.spec != now.spec)
    return changed("spec", golden.spec.substr(0, 8), now.spec.substr(0, 8));
  if (case_to_json(golden.subject) != case_to_json(now.subject))
    return "case: its parameters are others";
  if (golden.adapter != now.adapter)
    return changed("adapter", fmt::format("version {}", golden.adapter),
                   fmt::format("version {}", now.adapter));
  const std::string policy = policy_difference(golden, now);
  if (!policy.empty() || !same_implementation) return policy;
  const auto who = [](const Manifest& m) {
    return fmt::format("{} {} on {}", m.implementation, m.version, m.device);
  };
  if (who(golden) != who(now))
    return changed("implementation", who(golden), who(now));
  if (golden.environment != now.environment)
    return "environment: " + difference(golden.environment, now.environment);
  return "";
}

}  // namespace assay::conform
