// Writes two tensor files that differ in one element, compares them, prints
// the verdict and writes a report.
#include <assay/compare/compare.h>
#include <assay/formats/safetensors_writer.h>
#include <assay/report/json.h>

#include <cstdio>

using namespace assay;

void write(const char* path, float last) {
  Tensor t = Tensor::zeros(DType::kF32, {2, 3});
  t.mutable_data<float>()[5] = last;
  SafetensorsWriter writer(path, {{"w", t.dtype(), t.shape(), ""}});
  writer.write(t.view);
  writer.commit();
}

int main() {
  write("golden.safetensors", 1);
  write("target.safetensors", 2);
  const Comparison c =
      compare_paths("golden.safetensors", "target.safetensors", {});
  write_json(c, "report.json");
  for (const Row& row : c.rows)
    std::printf("%s %s\n", row.name().c_str(), to_string(row.verdict).data());
}
