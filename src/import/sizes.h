// Which size every symbolic dimension of a model takes. Programs have static shapes (decision
// 0004), so whatever the file leaves open is settled here: by what the caller says of shapes,
// symbols and input values, and else by a default that is reported.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "import/onnx.h"
#include "onnx/schema.h"

namespace emend {

class Sizes {
 public:
  // `inputs` are the model's inputs proper (without initializers). Throws Error on a contradiction.
  Sizes(const std::vector<const onnx::ValueInfo*>& inputs, const ImportOptions& options);

  // The type of an input; what was open has got its size.
  Type input_type(const onnx::ValueInfo& input) const;
  // What the file says about an inner value: static if all its dimensions are known by
  // now, `unshaped` if they are not.
  Type known_type(const onnx::Type& t) const;

  const std::map<std::string, int64_t>& defaulted() const { return defaulted_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void check_symbols(const std::vector<const onnx::ValueInfo*>& inputs) const;
  void bind_shape(const onnx::ValueInfo& input, const Dims& shape, const char* why);
  void bind(const std::string& symbol, int64_t size, const std::string& why);
  void bind_defaults(const onnx::ValueInfo& input);

  const ImportOptions& options_;
  std::map<std::string, int64_t> symbols_, defaulted_;
  std::map<std::string, Dims> shapes_;  // of inputs whose whole shape was given
  std::vector<std::string> notes_;
  bool overridden_ = false;  // a dimension that the file fixes was given another size
};

// The dimensions that stay open when everything given is taken into account, each symbol once.
std::vector<OpenDimension> open_dimensions(const std::vector<const onnx::ValueInfo*>& inputs,
                                           const ImportOptions& options);

// The symbol of a dimension: its name, "" for a number, and for one that is open and has no name a
// made-up one such as "?x.0" (never written to a file).
std::string symbol_of(const onnx::Dimension& d, const std::string& value_name, size_t index);

}  // namespace emend
