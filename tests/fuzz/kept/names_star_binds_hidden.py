"""On 3.12, `import *` gives an inlined comprehension's variable a value, and `exec` then has a copy of the names."""

a = 1
from keyword import *
exec('import math\nfrom math import pi')
[0 for a in None]
