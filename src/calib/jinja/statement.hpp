// statement.hpp: the tree of a template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "expression.hpp"
#include "lexer.hpp"

namespace cortiq::calib::jinja {

/// How a block ended: what {% break %} and {% continue %} do to the loop around it.
enum class Flow { kNext, kBreak, kContinue };

class Statement {
 public:
  virtual ~Statement() = default;
  [[nodiscard]] virtual Flow run(Scope& scope) const = 0;
};
struct Block {
  std::vector<std::unique_ptr<const Statement>> statements;
  [[nodiscard]] Flow run(Scope& scope) const;
  /// The text that the block prints, apart from the output so far.
  [[nodiscard]] std::string render(Scope& scope) const;
};

struct TextStatement final : Statement {
  explicit TextStatement(std::string t) : text(std::move(t)) {}
  Flow run(Scope& scope) const override;
  std::string text;
};

struct PrintStatement final : Statement {
  explicit PrintStatement(ExpressionPtr v) : value(std::move(v)) {}
  Flow run(Scope& scope) const override;
  ExpressionPtr value;
};

struct IfStatement final : Statement {
  Flow run(Scope& scope) const override;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};

/// for names in source if condition
struct ForStatement final : Statement {
  Flow run(Scope& scope) const override;
  std::vector<std::string> names;
  ExpressionPtr source;
  ExpressionPtr condition;  ///< may be null
  Block body;
  Block otherwise;  ///< of an empty loop

 private:
  [[nodiscard]] List chosen_items(Scope& scope) const;
  void bind(Scope& scope, const Value& item) const;
};

/// set a = value, set a, b = value, set namespace.a = value, set a %}text{% endset
struct SetStatement final : Statement {
  Flow run(Scope& scope) const override;
  std::vector<std::string> names;
  std::string member;   ///< of the namespace names[0], or empty
  ExpressionPtr value;  ///< null: the body
  Block body;
};

struct MacroStatement final : Statement {
  Flow run(Scope& scope) const override;
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  ///< default or null
  std::shared_ptr<const Block> body;

 private:
  Value call(Scope& scope, const Arguments& arguments) const;
};

/// break, continue
struct JumpStatement final : Statement {
  explicit JumpStatement(Flow f) : flow(f) {}
  Flow run(Scope&) const override { return flow; }
  Flow flow;
};

/// A block that is printed as it stands: {% generation %}.
struct PlainBlock final : Statement {
  Flow run(Scope& scope) const override { return body.run(scope); }
  Block body;
};

/// Throws Error{kInput} (syntax) or Error{kUnsupported}, with the line.
[[nodiscard]] Block parse_template(std::vector<Token> tokens, std::string_view where);

}  // namespace cortiq::calib::jinja
