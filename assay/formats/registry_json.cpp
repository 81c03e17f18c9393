#include "assay/formats/registry_json.h"

#include "assay/formats/bytes.h"
#include "assay/formats/json_scan.h"

namespace assay {
namespace {

bool is_array_key(std::string_view key) {
  return key == "array" || key == "tensor" || key == "values" ||
         key == "polygraphy_class" || key.starts_with("__polygraphy_encoded_");
}

// {"array": ...} or {"values": ...}: consumes the value only when it says no.
bool is_array_object(JsonScanner& scan) {
  if (scan.peek() != '{') {
    scan.skip_value();
    return false;
  }
  for (JsonObject object(scan); object.next(); scan.skip_value()) {
    if (is_array_key(object.key())) return true;
  }
  return false;
}

JsonKind by_key(JsonScanner& scan, std::string_view key) {
  if (key == "weight_map") return JsonKind::kSafetensorsIndex;
  if (key == "lst" || is_array_key(key)) return JsonKind::kPolygraphy;
  const bool dump_key =
      key == "dump_data_dir" || key == "task" || key == "level";
  if (dump_key && scan.peek() == '"') return JsonKind::kMsprobeDump;
  return is_array_object(scan) ? JsonKind::kPolygraphy : JsonKind::kOther;
}

JsonKind by_object(JsonScanner& scan) {
  for (JsonObject object(scan); object.next();) {
    const JsonKind kind = by_key(scan, object.key());
    if (kind != JsonKind::kOther) return kind;
  }
  return JsonKind::kOther;
}

// A list of {name: array}.
JsonKind by_list(JsonScanner& scan) {
  for (JsonArray array(scan); array.next();) {
    if (scan.peek() != '{') return JsonKind::kOther;
    for (JsonObject feed(scan); feed.next();) {
      if (is_array_object(scan)) return JsonKind::kPolygraphy;
    }
  }
  return JsonKind::kOther;
}

}  // namespace

JsonKind classify_json(const FileBytes& file) {
  JsonScanner scan(as_text(file.bytes), file.name);
  const char first = scan.peek();
  if (first != '{' && first != '[') return JsonKind::kNone;
  try {
    return first == '{' ? by_object(scan) : by_list(scan);
  } catch (const Error&) {
    return JsonKind::kOther;
  }
}

}  // namespace assay
