-- A load for ./dev port lua measure: tables, strings and closures; prints what has to be the same everywhere.
local n = tonumber(arg and arg[1]) or 20
words = {}
for i = 1, n * 1000 do
  local w = "w" .. i * 7919 % 5000
  words[w] = (words[w] or 0) + 1
  if i % 1000 == 0 and holdfast then holdfast.commit() end
end
list = {}
for i = 1, n * 200 do list[i] = { at = i, text = "t" .. i, f = function() return i end } end
table.sort(list, function(a, b) return a.at * 7919 % 10007 < b.at * 7919 % 10007 end)
local sum = 0
for i, o in ipairs(list) do sum = (sum * 31 + o.f()) % 1000003 end
for w, c in pairs(words) do sum = (sum + c * #w) % 1000003 end
print(sum)
