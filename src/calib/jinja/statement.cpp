#include "statement.hpp"

#include <algorithm>

namespace cortiq::calib::jinja {
namespace {

/// What a loop body sees as `loop`.
Dict loop_state(const List& items, std::size_t i) {
  const auto at = static_cast<std::int64_t>(i);
  const auto count = static_cast<std::int64_t>(items.size());
  Dict loop;
  loop.items = {{"index", at + 1},         {"index0", at},          {"revindex", count - at},
                {"revindex0", count - at - 1}, {"first", i == 0},   {"last", at + 1 == count},
                {"length", count}};
  if (i > 0) loop.items.emplace_back("previtem", items[i - 1]);
  if (at + 1 < count) loop.items.emplace_back("nextitem", items[i + 1]);
  const Function cycle = [at](const Arguments& arguments) -> Value {
    const auto choices = static_cast<std::int64_t>(arguments.positional.size());
    if (choices == 0) refuse("loop.cycle needs a value");
    return arguments.positional[static_cast<std::size_t>(at % choices)];
  };
  loop.items.emplace_back("cycle", cycle);
  return loop;
}

List unpacked(const Value& value, std::size_t count) {
  const auto items = iterate(value);
  if (!items || items->size() != count)
    refuse("a {} cannot be taken apart into {} names", value.type_name(), count);
  return *items;
}

}  // namespace

Flow Block::run(Scope& scope) const {
  for (const auto& statement : statements) {
    scope.step();
    const Flow flow = statement->run(scope);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

std::string Block::render(Scope& scope) const {
  std::string outer = std::move(scope.output);
  scope.output.clear();
  (void)run(scope);
  std::swap(outer, scope.output);
  return outer;
}

Flow TextStatement::run(Scope& scope) const {
  scope.output += text;
  return Flow::kNext;
}

Flow PrintStatement::run(Scope& scope) const {
  scope.output += value->evaluate(scope).text();
  return Flow::kNext;
}

Flow IfStatement::run(Scope& scope) const {
  for (const auto& [condition, block] : branches) {
    if (condition->evaluate(scope).truth()) return block.run(scope);
  }
  return otherwise.run(scope);
}

void ForStatement::bind(Scope& scope, const Value& item) const {
  if (names.size() == 1) {
    scope.set(names.front(), item);
    return;
  }
  const List parts = unpacked(item, names.size());
  for (std::size_t i = 0; i < names.size(); ++i) scope.set(names[i], parts[i]);
}

List ForStatement::chosen_items(Scope& scope) const {
  const Value value = source->evaluate(scope);
  const auto items = iterate(value);
  if (!items) refuse("a {} is nothing to loop over", value.type_name());
  if (!condition) return *items;
  List chosen;
  scope.push();
  for (const Value& item : *items) {
    scope.step();
    bind(scope, item);
    if (condition->evaluate(scope).truth()) chosen.push_back(item);
  }
  scope.pop();
  return chosen;
}

Flow ForStatement::run(Scope& scope) const {
  const List items = chosen_items(scope);
  if (items.empty()) return otherwise.run(scope);
  for (std::size_t i = 0; i < items.size(); ++i) {
    scope.step();
    scope.push();
    scope.set("loop", loop_state(items, i));
    bind(scope, items[i]);
    const Flow flow = body.run(scope);
    scope.pop();
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Flow SetStatement::run(Scope& scope) const {
  if (!member.empty()) {
    const Value* target = scope.find(names.front());
    if (target == nullptr || target->as_namespace() == nullptr)
      refuse("{} is no namespace, so {}.{} cannot be set", names.front(), names.front(), member);
    Value result = value ? value->evaluate(scope) : Value(body.render(scope));
    // Evaluated first: the value may use the old one.
    scope.find(names.front())->as_namespace()->members.set(member, std::move(result));
    return Flow::kNext;
  }
  Value result = value ? value->evaluate(scope) : Value(body.render(scope));
  if (names.size() == 1) {
    scope.set(names.front(), std::move(result));
    return Flow::kNext;
  }
  const List parts = unpacked(result, names.size());
  for (std::size_t i = 0; i < names.size(); ++i) scope.set(names[i], parts[i]);
  return Flow::kNext;
}

Flow MacroStatement::run(Scope& scope) const {
  // The template and the scope outlive every call.
  const Function function = [this, &scope](const Arguments& arguments) {
    return call(scope, arguments);
  };
  scope.set(name, function);
  return Flow::kNext;
}

Value MacroStatement::call(Scope& scope, const Arguments& arguments) const {
  if (arguments.positional.size() > parameters.size())
    refuse("the macro {} takes {} arguments", name, parameters.size());
  for (const auto& given : arguments.keyword) {
    const bool known = std::any_of(parameters.begin(), parameters.end(), [&given](const auto& parameter) {
      return parameter.first == given.first;
    });
    if (!known) refuse("the macro {} has no argument {}", name, given.first);
  }
  std::vector<Dict> saved = scope.enter_macro();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [parameter, fallback] = parameters[i];
    const Value* given = arguments.get(i, parameter);
    if (given != nullptr) {
      scope.set(parameter, *given);
    } else {
      scope.set(parameter, fallback ? fallback->evaluate(scope) : Value::undefined(parameter));
    }
  }
  std::string text = body->render(scope);
  scope.leave_macro(std::move(saved));
  return text;
}

}  // namespace cortiq::calib::jinja
