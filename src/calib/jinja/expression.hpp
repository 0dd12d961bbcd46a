// expression.hpp: the tree of an expression.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scope.hpp"
#include "value.hpp"

namespace cortiq::calib::jinja {

class Expression {
 public:
  virtual ~Expression() = default;
  [[nodiscard]] virtual Value evaluate(Scope& scope) const = 0;
};
using ExpressionPtr = std::unique_ptr<const Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keyword;
  [[nodiscard]] Arguments evaluate(Scope& scope) const;
};

struct Literal final : Expression {
  explicit Literal(Value v) : value(std::move(v)) {}
  Value evaluate(Scope&) const override { return value; }
  Value value;
};

struct Name final : Expression {
  explicit Name(std::string n) : name(std::move(n)) {}
  Value evaluate(Scope& scope) const override;
  std::string name;
};

struct ListLiteral final : Expression {
  Value evaluate(Scope& scope) const override;
  std::vector<ExpressionPtr> items;
};

struct DictLiteral final : Expression {
  Value evaluate(Scope& scope) const override;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};

/// object.name
struct Member final : Expression {
  Member(ExpressionPtr o, std::string n) : object(std::move(o)), name(std::move(n)) {}
  Value evaluate(Scope& scope) const override;
  ExpressionPtr object;
  std::string name;
};

/// object[index]
struct Subscript final : Expression {
  Subscript(ExpressionPtr o, ExpressionPtr i) : object(std::move(o)), index(std::move(i)) {}
  Value evaluate(Scope& scope) const override;
  ExpressionPtr object;
  ExpressionPtr index;
};

/// object[begin:end:step]; parts that are not given are null.
struct Slice final : Expression {
  Value evaluate(Scope& scope) const override;
  ExpressionPtr object, begin, end, step;
};

struct Call final : Expression {
  Value evaluate(Scope& scope) const override;
  ExpressionPtr callee;
  CallArguments arguments;
};

struct Filter final : Expression {
  Value evaluate(Scope& scope) const override;
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
};

struct Test final : Expression {
  Value evaluate(Scope& scope) const override;
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
  bool negated = false;
};

struct Unary final : Expression {
  Unary(std::string o, ExpressionPtr e) : op(std::move(o)), operand(std::move(e)) {}
  Value evaluate(Scope& scope) const override;
  std::string op;  ///< "not", "-", "+"
  ExpressionPtr operand;
};

struct Binary final : Expression {
  Binary(std::string o, ExpressionPtr l, ExpressionPtr r)
      : op(std::move(o)), left(std::move(l)), right(std::move(r)) {}
  Value evaluate(Scope& scope) const override;
  std::string op;
  ExpressionPtr left, right;
};

/// value if condition else otherwise; a missing `otherwise` is undefined.
struct Conditional final : Expression {
  Value evaluate(Scope& scope) const override;
  ExpressionPtr condition, value, otherwise;
};

}  // namespace cortiq::calib::jinja
