-- Tables, strings and closures, for about half a second; prints a sum of all it did.
local sum, v = 0, 1
local function work()
local words = {}
for i = 1, 20000 do
  words[i] = ("word%d"):format(i * 7919 % 20011)
end
table.sort(words)
local index = {}
for i, w in ipairs(words) do
  index[w] = (index[w] or 0) + i
end
for i = 1, 20000, 3 do
  sum = (sum + index[words[i]]) % 1000003
end
local parts = {}
for i = 1, 2000 do
  parts[#parts + 1] = table.concat({words[i], words[2001 - i]}, "-")
end
sum = sum + #table.concat(parts)
local function make(n)
  return function(x) return (x * n) % 65537 end
end
for i = 1, 20000 do
  v = make(i)(v) + 1
end
local grid = {}
for y = 1, 120 do
  grid[y] = {}
  for x = 1, 120 do
    grid[y][x] = x * y % 10
  end
end
for round = 1, 20 do
  local new = {}
  for y = 1, 120 do
    new[y] = {}
    for x = 1, 120 do
      local up, down = grid[y - 1] or grid[120], grid[y + 1] or grid[1]
      new[y][x] = (up[x] + down[x] + (grid[y][x - 1] or 0) + (grid[y][x + 1] or 0)) % 10
    end
  end
  grid = new
end
for y = 1, 120 do
  for x = 1, 120 do sum = sum + grid[y][x] end
end
end
for i = 1, 8 do work() end
print(sum, v)
