#include "assay/te/modules/norm.h"

#include "assay/te/modules/observer.h"

namespace assay::te {

NormModule::NormModule(const char* type, Shape normalized_shape,
                       Normalization kind, const NormModuleOptions& options)
    : Module(type, options.name),
      core_(
          *this,
          [this](std::string local, Parameter p) -> Parameter& {
            return add_parameter(std::move(local), std::move(p));
          },
          "", std::move(normalized_shape), kind, options) {}

Tensor NormModule::forward(const Tensor& x, Context* context) {
  Tensor y = core_.forward(x, context ? &context->saved : nullptr);
  observe(*this, "output", y);
  return y;
}

Tensor NormModule::backward(const Tensor& dy, Context& context) {
  Tensor dx = core_.backward(dy, context.saved);
  observe(*this, "grad_input", dx);
  return dx;
}

}  // namespace assay::te
